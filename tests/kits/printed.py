"""What a session inside a test has printed."""

import pytest


def printed(result: pytest.RunResult) -> str:
    """Return it as one line, however it was wrapped."""
    return " ".join("\n".join([*result.outlines, *result.errlines]).split())
