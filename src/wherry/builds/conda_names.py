"""Conda's names and pins in the words of PyPI."""

from __future__ import annotations

import re
from typing import List, Optional, Sequence

from wherry.builds.error import BuildError
from wherry.builds.recipe import Recipe, conda_parts

# The same thing under another name; names that are not here are the same in both.
NAMES = {
    "pytorch": "torch",
    "pytorch-cpu": "torch",
    "pytorch-gpu": "torch",
    "matplotlib-base": "matplotlib",
    "py-xgboost": "xgboost",
    "py-xgboost-cpu": "xgboost",
    "py-xgboost-gpu": "xgboost",
    "tensorflow-base": "tensorflow",
    "tensorflow-gpu": "tensorflow",
    "tensorflow-mkl": "tensorflow",
    "keras-gpu": "keras",
    "opencv": "opencv-python",
    "py-opencv": "opencv-python",
    "msgpack-python": "msgpack",
    "pytables": "tables",
    "pyqt": "pyqt5",
    "dask-core": "dask",
    "psycopg2": "psycopg2-binary",
    "python-graphviz": "graphviz",
    "python-lmdb": "lmdb",
    "pyarrow-core": "pyarrow",
}

# PyPI has something else under these names, or nothing: no wheel stands in for them.
CONDA_ONLY = re.compile(
    r"^(_.*|r-.*|lib(gcc|stdcxx|blas|cblas|lapack|openblas|ffi|png|tiff|gomp|sodium|iconv).*"
    r"|cuda|cudatoolkit.*|cudnn|nccl|blas|nomkl|openblas|openjdk|gcc.*|gxx.*|gfortran.*|clang.*"
    r"|sysroot.*|binutils.*|m2w64-.*|vs20\d\d.*|vc|openssl|readline|sqlite|tk|zlib|xz|bzip2|ncurses"
    r"|ca-certificates|ld_impl.*|openmpi|mpich|mpi|nodejs|ffmpeg|git|hdf5|pytorch-cuda"
    r"|pytorch-mutex|icu|curl|krb5|geos|proj|conda|conda-build)$"
)


def to_pypi(recipe: Recipe) -> List[str]:
    """Requirements that PyPI can meet; raises an error naming those that it cannot."""
    only = [word for word in recipe.conda if CONDA_ONLY.match(conda_parts(word)[0])]
    if only:
        raise conda_only(recipe, only)
    return [requirement(word) for word in recipe.conda]


def requirement(word: str) -> str:
    name, pin = conda_parts(word)
    return NAMES.get(name, name) + _pin(pin, word)


def _pin(pin: str, word: str) -> str:
    if "|" in pin or "[" in pin:
        raise BuildError(
            f"the pin of {word!r} cannot be said to PyPI",
            hint="write versions as name=1.5 or name>=1.5,<2",
        )
    said = [_one(each.strip()) for each in pin.split(",")]
    return ",".join(each for each in said if each)


def _one(pin: str) -> str:
    """``=1.5`` and ``1.5.*`` are any 1.5; a build string has no like on PyPI."""
    if not pin or pin == "*":
        return ""
    exact = re.match(r"^==\s*([^=\s]+)(?:[=\s]\S+)?$", pin)
    if exact:
        return f"=={exact[1]}"
    loose = re.match(r"^(=?)\s*([0-9][^=\s]*)(?:([=\s])\S+)?$", pin)
    if not loose:
        return pin.replace(" ", "")
    version = loose[2].rstrip("*").rstrip(".")
    whole = bool(loose[3]) and not loose[2].endswith("*")
    return f"=={version}" if whole else f"=={version}.*"


def conda_only(recipe: Recipe, words: Sequence[str], because: Optional[str] = None) -> BuildError:
    places = [f"{word} ({recipe.place(word)})" if recipe.place(word) else word for word in words]
    verb = "exists" if len(words) == 1 else "exist"
    line = next((recipe.lines[word] for word in words if word in recipe.lines), None)
    return BuildError(
        f"{', '.join(places)} of {recipe.name} {verb} only as conda packages, and PyPI was to"
        f" provide them" + (f": {because}" if because else ""),
        hint="let the target reach a conda channel (conda.resolver = rattler), or leave them out",
        file=recipe.file,
        line=line,
    )
