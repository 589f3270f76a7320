"""What the server can do, as clients ask when they begin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .calls import Call, endpoint


@endpoint("GET", "server-info")
def server_info(call: Call) -> Mapping[str, Any]:
    return {
        "store_type": "SqlStore",
        "workspaces_enabled": False,
        "trace_archival_enabled": False,
        "multipart_uploads_enabled": False,
        "multipart_downloads_enabled": False,
        "presigned_upload_run_id_supported": False,
        "presigned_upload_model_id_supported": False,
    }
