"""Words for the runs that a server submits itself, as sessions of compute instances."""

SESSION = "wherry.session"
"""The type of such a run, which no list shows."""
EXPERIMENT = ".sessions"
