"""Ids of runs and their times: UTC, whole seconds. Importing this module imports nothing heavy."""

from __future__ import annotations

from datetime import UTC, datetime

_ID_TIME = "%Y%m%dT%H%M%SZ"


def new_run_id(now: datetime, suffix: str) -> str:
    """Return an id that sorts by time, also within a second, and is made unique by its suffix.

    Examples
    --------
    >>> new_run_id(datetime(2026, 11, 20, 10, 15, 30, 500_000, tzinfo=UTC), "f0c")
    '20261120T101530Z-800f0c'
    """
    fraction = now.microsecond * 0x1000 // 1_000_000
    return f"{now.astimezone(UTC).strftime(_ID_TIME)}-{fraction:03x}{suffix}"


def started_of(run_id: str) -> str:
    """Return when a run was started, as ISO 8601.

    Examples
    --------
    >>> started_of("20261120T101530Z-5f0c1a")
    '2026-11-20T10:15:30Z'
    """
    return iso(datetime.strptime(run_id.partition("-")[0], _ID_TIME).replace(tzinfo=UTC))


def iso(time: datetime) -> str:
    """Return a time as ISO 8601, UTC, whole seconds."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
