"""The version of Wherry, and of the HTTP interface between its parts."""

from __future__ import annotations

VERSION = "0.1.0"
API = 1
