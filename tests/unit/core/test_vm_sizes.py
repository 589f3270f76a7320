"""What a machine can be cut into, and where Azure's names lead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.core.errors import UserErrorException
from wherry.core.resources import Resources
from wherry.core.vm_sizes import Size, azure, catalogue, nearest

GIB = 2**30
MACHINE = Resources(12, 48 * GIB, 2)


def test_a_machine_is_cut_in_powers_of_two_and_can_be_had_whole() -> None:
    sizes = {size.name: size.resources for size in catalogue(MACHINE)}
    assert list(sizes) == [
        "local-1",
        "local-2",
        "local-4",
        "local-8",
        "local-12",
        "local-6-gpu1",
        "local-12-gpu2",
    ]
    assert sizes["local-4"] == Resources(4, 16 * GIB)
    assert sizes["local-6-gpu1"] == Resources(6, 24 * GIB, 1)
    assert sizes["local-12-gpu2"] == MACHINE


@pytest.mark.parametrize("cpu", [0.5, 1, 1.5, 2, 3])
def test_odd_machines_can_be_had_whole(cpu: float) -> None:
    sizes = catalogue(Resources(cpu, 2 * GIB))
    assert sizes[-1].resources == Resources(cpu, 2 * GIB)


@given(st.integers(1, 512), st.integers(0, 2**40), st.integers(0, 16))
def test_every_size_fits_its_machine(cpu: int, memory: int, gpu: int) -> None:
    machine = Resources(cpu, memory, gpu)
    sizes = catalogue(machine)
    assert all(size.resources.fits(machine) for size in sizes)
    assert len({size.name for size in sizes}) == len(sizes)


@pytest.mark.parametrize(
    ("name", "cpu", "gib", "gpu"),
    [
        ("STANDARD_NC6", 6, 56, 1),
        ("Standard_D2_v2", 2, 7, 0),
        ("STANDARD_DS2_V2", 2, 7, 0),
        ("Standard_DS3_v2", 4, 14, 0),
        ("STANDARD_D12_V2", 4, 28, 0),
        ("Standard_D4s_v3", 4, 16, 0),
        ("Standard_D4ads_v5", 4, 16, 0),
        ("Standard_D4ls_v5", 4, 8, 0),
        ("Standard_E16s_v3", 16, 128, 0),
        ("Standard_E16-4s_v3", 16, 128, 0),
        ("Standard_F4s_v2", 4, 8, 0),
        ("Standard_B2ms", 2, 8, 0),
        ("Standard_ND96isr_H100_v5", 96, 1900, 8),
    ],
)
def test_azures_names_are_understood(name: str, cpu: int, gib: int, gpu: int) -> None:
    assert azure(name) == Resources(cpu, gib * GIB, gpu)


@pytest.mark.parametrize("name", ["", "big", "d9", "Standard_Q4", "Standard_D", "Standard_NC7"])
def test_other_names_are_not(name: str) -> None:
    assert azure(name) is None


def test_a_site_knows_its_own_names_in_any_case() -> None:
    sizes = catalogue(MACHINE)
    found, told = nearest("LOCAL-4", sizes)
    assert (found.name, told) == ("local-4", None)
    assert nearest("", sizes)[0].name == "local-1"


def test_azures_names_lead_to_the_smallest_that_holds_them() -> None:
    found, told = nearest("Standard_D2_v2", catalogue(MACHINE))
    assert found.name == "local-2"
    assert told is not None
    assert told.startswith("Standard_D2_v2 (2 CPUs, 7.5 GB of memory) is local-2 here (2 CPUs,")
    assert nearest("STANDARD_NC6", catalogue(Resources(16, 256 * GIB, 4)))[0].gpu == 1


def test_where_nothing_is_large_enough_it_is_told() -> None:
    found, told = nearest("Standard_ND40rs_v2", catalogue(MACHINE))
    assert found.name == "local-12-gpu2"
    assert told is not None
    assert told.endswith("with less than it asks for")
    cheap, dear = Size("a", 4, 0, 0, 1.0), Size("b", 4, 0, 0, 2.0)
    assert nearest("Standard_NC6", [dear, cheap])[0] is cheap


def test_a_mistyped_name_is_guessed() -> None:
    with pytest.raises(UserErrorException, match="did you mean 'local-4'"):
        nearest("locl-4", catalogue(MACHINE))
    with pytest.raises(UserErrorException, match="there is no size 'huge'"):
        nearest("huge", catalogue(MACHINE))
    with pytest.raises(UserErrorException, match="no sizes"):
        nearest("local-1", [])
