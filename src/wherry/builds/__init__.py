"""Makes an environment on a node, once, and finds it again. The standard library alone.

What a run needs to find one loads quickly; ``wherry.builds.prune`` is for others to import.
"""

from wherry.builds.cache import default_root
from wherry.builds.error import BuildCanceled, BuildError
from wherry.builds.prepare import prepare
from wherry.builds.prepared import Prepared

__all__ = ["BuildCanceled", "BuildError", "Prepared", "default_root", "prepare"]
