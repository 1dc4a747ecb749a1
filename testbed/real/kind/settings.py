"""Settings of runs on kind, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from testbed.errors import InvalidSetting


class KindSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the provider kind."""

    agents: bool = True
    """Whether CARICO's agents run beside a scheduler that does not need them; without them nodes have no telemetry."""
    warm_up_s: Annotated[float, Meta(ge=0, le=3600)] = 30.0
    """Idle time before every repetition, in which new agents learn what an idle node is like."""


def kind_settings(given: Mapping[str, Any]) -> KindSettings:
    """Return the settings; values may be strings, as on a command line.

    Raises
    ------
    InvalidSetting
        If a setting is unknown, or its value is not allowed.
    """
    try:
        return msgspec.convert(dict(given), KindSettings, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(KindSettings.__struct_fields__)
        raise InvalidSetting(f"settings of the provider kind: {error}; known: {known}") from error
