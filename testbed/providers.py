"""The kinds of cluster by name. Importing this imports none of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from testbed.cluster_options import ClusterOptions
from testbed.errors import InvalidSetting, UsageError
from testbed.requirements import check_installed

if TYPE_CHECKING:
    from testbed.experiment.provider import ClusterProvider
    from testbed.real.maker import ClusterMaker
    from testbed.real.platform import Platform

SIMULATED = "simulated"
EXTERNAL = "external"
"""The user's own cluster."""


def _kind(options: ClusterOptions) -> tuple[ClusterMaker, Platform]:
    from testbed.real.kind.maker import KindMaker
    from testbed.real.kind.platform import KindPlatform

    maker = KindMaker(options.workers, options.node_image)
    return maker, KindPlatform(maker)


def _kwok(options: ClusterOptions) -> tuple[ClusterMaker, Platform]:
    from testbed.real.kwok.maker import KwokMaker
    from testbed.real.kwok.platform import KwokPlatform

    return KwokMaker(), KwokPlatform()


REAL: Mapping[str, Callable[[ClusterOptions], tuple[ClusterMaker, Platform]]] = {"kind": _kind, "kwok": _kwok}
"""Real clusters that are made here, by name: what makes a cluster, and what pods find there."""
PROVIDERS = (SIMULATED, *REAL, EXTERNAL)


def provider_named(name: str, options: ClusterOptions) -> ClusterProvider:
    """Return a new provider of that kind.

    Parameters
    ----------
    name : str
    options : ClusterOptions
        For the cluster; the simulated one asks nobody.

    Raises
    ------
    UsageError
        If there is none (the message lists those there are), or the options are for another; see
        `check_cluster_options`.
    MissingExtra
        If it needs packages that are not installed.
    """
    check_cluster_options(name, vars(options))
    if name == SIMULATED:
        check_installed()
        from testbed.simulation.provider import SimulatedProvider

        return SimulatedProvider()
    if name in REAL:
        check_installed("cluster")
        from testbed.real.lifecycle import MadeCluster
        from testbed.real.provider import RealProvider

        maker, platform = REAL[name](options)
        return RealProvider(MadeCluster(maker, options), platform, options)
    if name == EXTERNAL:
        check_installed("cluster")
        from testbed.real.external.cluster import ExternalCluster
        from testbed.real.external.platform import ExternalPlatform
        from testbed.real.provider import RealProvider

        cluster = ExternalCluster(options)
        return RealProvider(cluster, ExternalPlatform(cluster, options.workload_image), options)
    raise UsageError(f"no provider is named {name!r}; known: {', '.join(PROVIDERS)}")


def makers() -> dict[str, ClusterMaker]:
    """Return what makes real clusters, by name.

    Raises
    ------
    MissingExtra
        If they need packages that are not installed.
    """
    check_installed("cluster")
    return {name: made(ClusterOptions("clean"))[0] for name, made in REAL.items()}


def check_cluster_options(name: str, values: Mapping[str, Any]) -> None:
    """Check that the user's own cluster is named if, and only if, it is to be used: never by accident.

    Parameters
    ----------
    name : str
        Of the provider.
    values : mapping
        Of the fields of `ClusterOptions` that say which cluster it is.

    Raises
    ------
    UsageError
        If not.
    """
    if name == EXTERNAL:
        if values["kubeconfig"] is None:
            raise UsageError(
                "the provider external needs the kubeconfig of a cluster, which is never taken from the environment: "
                "name it with --kubeconfig FILE (pytest: --carico-kubeconfig)"
            )
        return
    external_only = ("kubeconfig", "context", "workload_image")
    if named := [option.replace("_", "-") for option in external_only if values[option] is not None]:
        raise UsageError(
            f"{', '.join(named)}: only for the provider external, the provider is {name}: leave it out, or add "
            f"--provider=external (pytest: --carico-provider=external)"
        )


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
        from testbed.real.kind.settings import kind_settings

        kind_settings(settings)
    elif name in REAL or name == EXTERNAL:
        raise InvalidSetting(f"the provider {name} has no settings, got {', '.join(settings)}")
    if name == SIMULATED:
        check_installed()
        from testbed.simulation.parameters import parameters_from

        try:
            parameters_from(settings)
        except InvalidSetting as error:
            raise InvalidSetting(f"{error}; 'carico-testbed list' shows what can be set") from error
