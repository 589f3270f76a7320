"""Runs the runner out of a cache, which it fills from the archive once per version.

This text is the archive's ``__main__`` and also lies beside the archive as a plain script, the
faster way in: Python starts a script in two thirds of the time that an archive takes.
"""

import os
import sys

HASH = ""


def main() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    archive = here if here.endswith(".pyz") else here + "/runner.pyz"
    cache = os.environ.get("WHERRY_CACHE") or os.path.expanduser("~/.cache/wherry")
    own = os.path.abspath(sys.argv[1]) + "/runner"
    library = _unpacked(archive, cache + "/runner-" + HASH) or _unpacked(archive, own)
    _import_from(library)
    try:
        from wherry.runner import __main__ as runner
    except ImportError:  # someone has tidied up in the cache
        library = _unpacked(archive, own)
        _import_from(library)
        from wherry.runner import __main__ as runner

    if "--rescue" in sys.argv:
        runner.rescue(sys.argv[1], library)
    elif "--nursery" not in sys.argv:
        runner.main(sys.argv[1], library)
    elif library != own:  # which is gone with this attempt
        from wherry.runner.nursery import serve

        serve(library)
    os._exit(0)


def _unpacked(archive: str, library: str) -> str:
    if os.path.isdir(library):
        return library
    _import_from(archive)
    from wherry.runner.unpacking import unpack

    return unpack(archive, library)


def _import_from(place: str) -> None:
    """Import ``wherry.runner`` from there, without what ``wherry`` itself imports."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "wherry"]:
        del sys.modules[name]
    package = type(sys)("wherry")
    package.__path__ = [place + "/wherry"]
    sys.modules["wherry"] = package


if __name__ == "__main__":
    main()
