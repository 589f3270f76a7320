"""Makes an environment on a node, once, and finds it again. The standard library alone."""

from wherry.builds.error import BuildCanceled, BuildError
from wherry.builds.prepare import prepare
from wherry.builds.prepared import Prepared
from wherry.builds.prune import prune

__all__ = ["BuildCanceled", "BuildError", "Prepared", "prepare", "prune"]
