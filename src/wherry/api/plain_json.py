"""JSON that may carry NaN and infinities, as Python reads and writes them."""

from __future__ import annotations

import json
from typing import Any

from fastapi.responses import JSONResponse


class PlainJSON(JSONResponse):
    def render(self, content: Any) -> bytes:
        return json.dumps(content, separators=(",", ":")).encode()
