"""States of compute instances, from what is known of them."""

from __future__ import annotations

from typing import Any

import pytest

from wherry.core.instance_state import Seen, state_of

_UP: dict[str, Any] = {"node": "idle", "session": "Running", "phase": "Ready", "created": True}


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        ({}, "Creating"),
        ({"node": "preparing"}, "Creating"),
        ({"node": "unusable"}, "CreateFailed"),
        ({"node": "unusable", "created": True}, "Unusable"),
        ({"node": "idle", "session": "Preparing"}, "SettingUp"),
        ({"node": "idle", "session": "Running", "phase": "UserSettingUp"}, "UserSettingUp"),
        ({**_UP, "phase": "UserSetupFailed"}, "UserSetupFailed"),
        ({"node": "idle", "session": "Failed", "given_up": True}, "SetupFailed"),
        (_UP, "Running"),
        ({**_UP, "jobs": 1}, "JobRunning"),
        ({**_UP, "session": "NotResponding"}, "Unknown"),
        ({**_UP, "restarting": True}, "Restarting"),
        ({**_UP, "stopped": True}, "Stopping"),
        ({**_UP, "node": "", "stopped": True}, "Stopping"),
        ({"session": "Canceled", "created": True, "stopped": True}, "Stopped"),
        ({"session": "Canceled", "created": True}, "Starting"),
        ({**_UP, "phase": ""}, "Starting"),
        ({**_UP, "stopped": True, "deleting": True}, "Deleting"),
    ],
)
def test_states(seen: dict[str, Any], state: str) -> None:
    assert state_of(Seen(**seen)) == state
