"""The kinds of cluster by name. Importing this imports none of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from testbed.clusters.wishes import Wishes
from testbed.errors import InvalidSetting, UsageError
from testbed.requirements import check_installed

if TYPE_CHECKING:
    from testbed.clusters.maker import ClusterMaker
    from testbed.clusters.platform import Platform
    from testbed.clusters.provider import ClusterProvider

SIMULATED = "simulated"


def _kind(wishes: Wishes) -> tuple[ClusterMaker, Platform]:
    from testbed.clusters.containers import Containers
    from testbed.clusters.kind import KindMaker

    maker = KindMaker(wishes.workers, wishes.node_image)
    return maker, Containers(maker)


def _kwok(wishes: Wishes) -> tuple[ClusterMaker, Platform]:
    from testbed.clusters.fake_nodes import FakeNodes
    from testbed.clusters.kwok import KwokMaker

    return KwokMaker(), FakeNodes()


REAL: Mapping[str, Callable[[Wishes], tuple[ClusterMaker, Platform]]] = {"kind": _kind, "kwok": _kwok}
"""Real ones, by name: what makes a cluster, and what pods find there."""
PROVIDERS = (SIMULATED, *REAL)


def provider_named(name: str, wishes: Wishes) -> ClusterProvider:
    """Return a new provider of that kind.

    Parameters
    ----------
    name : str
    wishes : Wishes
        For the cluster; the simulated one asks nobody.

    Raises
    ------
    UsageError
        If there is none; the message lists the known ones.
    MissingExtra
        If it needs packages that are not installed.
    """
    if name == SIMULATED:
        check_installed()
        from testbed.clusters.simulated import SimulatedProvider

        return SimulatedProvider()
    if name in REAL:
        check_installed("cluster")
        from testbed.clusters.real import RealProvider

        return RealProvider(*REAL[name](wishes), wishes)
    raise UsageError(f"no provider is named {name!r}; known: {', '.join(PROVIDERS)}")


def makers() -> dict[str, ClusterMaker]:
    """Return what makes real clusters, by name.

    Raises
    ------
    MissingExtra
        If they need packages that are not installed.
    """
    check_installed("cluster")
    return {name: made(Wishes("clean"))[0] for name, made in REAL.items()}


def check_settings(name: str, settings: Mapping[str, Any]) -> None:
    """Check, before anything runs, that a provider takes these settings.

    Raises
    ------
    InvalidSetting
        If it does not know one, or one has a value that it does not take.
    MissingExtra
        If it needs packages that are not installed.
    """
    if not settings:
        return
    if name == "kind":
        from testbed.clusters.kind_settings import kind_settings

        kind_settings(settings)
    elif name in REAL:
        raise InvalidSetting(f"the provider {name} has no settings, got {', '.join(settings)}")
    if name == SIMULATED:
        check_installed()
        from testbed.simulation.parameters import parameters_from

        try:
            parameters_from(settings)
        except InvalidSetting as error:
            raise InvalidSetting(f"{error}; 'carico-testbed list' shows what can be set") from error
