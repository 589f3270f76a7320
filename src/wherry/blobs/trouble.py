"""What keeps a bucket from working, as a sentence."""

from __future__ import annotations

import re

from wherry.core.errors import ServerUnavailableError

_MESSAGE = re.compile(r"<Code>([^<]+)</Code>(?:\s*<Message>([^<]*)</Message>)?")
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|bucket does not exist")
_REFUSED = re.compile(
    r"40[13] (Forbidden|Unauthorized)|[Cc]redential|169\.254\.169\.254|privileges|metadata\.google"
)
_VARIABLES = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}


class MisconfiguredError(ServerUnavailableError):
    """No waiting helps: a person has to change something."""


def trouble(name: str, error: Exception) -> ServerUnavailableError:
    """``name`` is the address of the bucket."""
    text = str(error)
    reason = _reason(text)
    if _NO_BUCKET.search(text):
        return MisconfiguredError(
            f"the bucket of {name} does not exist ({reason})",
            hint="make it, or name another with WHERRY_BLOBS",
        )
    if _REFUSED.search(text):
        variables = _VARIABLES.get(name.partition("://")[0], "its variables")
        return MisconfiguredError(
            f"{name} does not let the server in ({reason})",
            hint=f"{variables} must be set where the server is started, and allow reading, "
            "writing, listing and deleting there",
        )
    return ServerUnavailableError(
        f"the blob store {name} does not answer: {reason}",
        hint="nothing is lost: runs wait and send again. AWS_ENDPOINT_URL names another server "
        "than Amazon's"
        if name.startswith("s3:")
        else "nothing is lost: runs wait and send again",
    )


def _reason(text: str) -> str:
    found = _MESSAGE.search(text)
    if found:
        return ": ".join(part.strip().split("\n")[0] for part in found.groups() if part)
    first = text.strip().split("\n")[0]
    return first.rpartition(" - ")[2][:300]
