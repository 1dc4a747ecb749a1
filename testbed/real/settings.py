"""Settings of runs on nodes that run pods, kind's and Xen's, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from testbed.errors import InvalidSetting
from workloads.errors import Misfit
from workloads.fitting import fitted


class NodeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the providers kind and xen."""

    agents: bool = True
    """Whether CARICO's agents run beside a scheduler that does not need them; without them nodes have no telemetry."""
    warm_up_s: Annotated[float, Meta(ge=0, le=3600)] = 30.0
    """Idle time before every repetition, in which new agents learn what an idle node is like."""


def node_settings(provider: str, given: Mapping[str, Any]) -> NodeSettings:
    """Return the settings; values may be strings, as on a command line.

    Raises
    ------
    InvalidSetting
        If a setting is unknown, or its value is not allowed.
    """
    try:
        settings: NodeSettings = fitted(dict(given), NodeSettings, strict=False)
    except Misfit as error:
        raise InvalidSetting(f"settings of the provider {provider}: {error}") from error
    return settings
