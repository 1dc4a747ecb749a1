"""The kinds of cluster by name. Importing this imports none of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from testbed.errors import InvalidSetting, UsageError
from testbed.requirements import check_installed

if TYPE_CHECKING:
    from testbed.clusters.provider import ClusterProvider

PROVIDERS = ("simulated",)


def provider_named(name: str) -> ClusterProvider:
    """Return a new provider of that kind.

    Raises
    ------
    UsageError
        If there is none; the message lists the known ones.
    MissingExtra
        If it needs packages that are not installed.
    """
    if name == "simulated":
        check_installed()
        from testbed.clusters.simulated import SimulatedProvider

        return SimulatedProvider()
    raise UsageError(f"no provider is named {name!r}; known: {', '.join(PROVIDERS)}")


def check_settings(name: str, settings: Mapping[str, Any]) -> None:
    """Check, before anything runs, that a provider takes these settings.

    Raises
    ------
    InvalidSetting
        If it does not know one, or one has a value that it does not take.
    MissingExtra
        If it needs packages that are not installed.
    """
    if name == "simulated" and settings:
        check_installed()
        from testbed.simulation.parameters import parameters_from

        try:
            parameters_from(settings)
        except InvalidSetting as error:
            raise InvalidSetting(f"{error}; 'carico-testbed list' shows what can be set") from error
