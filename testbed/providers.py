"""The providers by name. Importing this module, as every pytest session does, imports none of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from testbed.errors import InvalidSetting, MissingExtra, UsageError, suggested

if TYPE_CHECKING:
    from testbed.cluster_options import ClusterOptions
    from testbed.experiment.provider import ClusterProvider
    from testbed.real.maker import ClusterMaker
    from testbed.real.platform import Platform
    from testbed.requirements import Problem

SIMULATED = "simulated"
XEN = "xen"
EXTERNAL = "external"
"""The user's own cluster."""


def _kind(options: ClusterOptions) -> tuple[ClusterMaker, Platform]:
    from testbed.real.kind.maker import KindMaker
    from testbed.real.kind.platform import KindPlatform

    maker = KindMaker(options.workers, options.node_image, options.pytest_kind)
    return maker, KindPlatform(maker)


def _kwok(options: ClusterOptions) -> tuple[ClusterMaker, Platform]:
    from testbed.real.kwok.maker import KwokMaker
    from testbed.real.kwok.platform import KwokPlatform

    return KwokMaker(), KwokPlatform()


def _xen(options: ClusterOptions) -> tuple[ClusterMaker, Platform]:
    from testbed.real.xen.maker import XenMaker
    from testbed.real.xen.platform import XenPlatform

    maker = XenMaker(options.xen, options.say)
    return maker, XenPlatform(maker)


def _xen_remover() -> ClusterMaker:
    from testbed.real.xen.maker import XenMaker

    return XenMaker(None)


REAL: Mapping[str, Callable[[ClusterOptions], tuple[ClusterMaker, Platform]]] = {
    "kind": _kind,
    "kwok": _kwok,
    XEN: _xen,
}
"""By name, the maker and the platform of each kind of real cluster that the testbed makes."""
PROVIDERS = (SIMULATED, *REAL, EXTERNAL)
_FILES = {"kubeconfig": "kubeconfig", "xen": "description of Xen guests"}
"""By option, the files that lead to a cluster."""


def provider_named(name: str, options: ClusterOptions) -> ClusterProvider:
    """Return a new provider of that kind.

    Parameters
    ----------
    name : str
    options : ClusterOptions
        Options of the cluster; the simulated cluster ignores them.

    Raises
    ------
    UsageError
        If there is no such provider (the message lists the known ones), or the options are for another one; see
        `check_cluster_options`.
    MissingExtra
        If the provider needs packages that are not installed; the message lists missing files, too.
    """
    check_cluster_options(name, vars(options))
    if name in PROVIDERS:
        _check_installed(name, options)
    if name == SIMULATED:
        from testbed.simulation.provider import SimulatedProvider

        return SimulatedProvider()
    if name in REAL:
        from testbed.real.lifecycle import MadeCluster
        from testbed.real.provider import RealProvider

        maker, platform = REAL[name](options)
        return RealProvider(MadeCluster(maker, options), platform, options)
    if name == EXTERNAL:
        from testbed.real.external.cluster import ExternalCluster
        from testbed.real.external.platform import ExternalPlatform
        from testbed.real.provider import RealProvider

        cluster = ExternalCluster(options)
        return RealProvider(cluster, ExternalPlatform(cluster, options.workload_image), options)
    raise UsageError(f"no provider is named {name!r}{suggested(name, PROVIDERS)}")


def missing_for(name: str, values: Mapping[str, Any]) -> list[Problem]:
    """Return what is missing to make a provider, as far as can be told without its packages: these, and files.

    Parameters
    ----------
    name : str
        The provider's name.
    values : mapping
        Fields of `ClusterOptions` by name.
    """
    from testbed.requirements import Problem, missing_packages

    packages = missing_packages(_extra_of(name))
    return [
        *([] if packages is None else [packages]),
        *(
            Problem(f"there is no {what} {values[option]}", f"name another with --{option} (pytest: --carico-{option})")
            for option, what in _FILES.items()
            if values[option] is not None and not values[option].exists()
        ),
    ]


def _check_installed(name: str, options: ClusterOptions) -> None:
    from testbed.experiment.preflight import listed
    from testbed.requirements import missing_packages

    if missing_packages(_extra_of(name)) is not None:
        raise MissingExtra(listed(missing_for(name, vars(options))))


def _extra_of(name: str) -> str:
    return {SIMULATED: "testbed", XEN: XEN}.get(name, "cluster")


def makers() -> dict[str, ClusterMaker]:
    """Return the makers of real clusters by name, to remove clusters with; without xen's if its extra is not installed.

    Raises
    ------
    MissingExtra
        If they need packages that are not installed.
    """
    from testbed.cluster_options import ClusterOptions
    from testbed.requirements import check_installed, missing_packages

    check_installed("cluster")
    options = ClusterOptions("clean")
    found = {name: made(options)[0] for name, made in REAL.items() if name != XEN}
    return found if missing_packages(XEN) else found | {XEN: _xen_remover()}


def check_cluster_options(name: str, values: Mapping[str, Any]) -> None:
    """Check that a cluster of the user's own, or a Xen host, is named if, and only if, the provider uses it.

    Parameters
    ----------
    name : str
        The provider's name.
    values : mapping
        Fields of `ClusterOptions` by name, including those of the user's own cluster.

    Raises
    ------
    UsageError
        If the cluster or host is not named, or is named for another provider.
    """
    if name == XEN and values["xen"] is None:
        raise UsageError(
            "the provider xen needs a description of a Xen host and of guests: name it with --xen FILE (pytest: "
            "--carico-xen); docs/how-to/xen.md has examples"
        )
    if name != XEN and values["xen"] is not None:
        raise UsageError(
            f"xen: only for the provider xen, the provider is {name}: leave it out, or add --provider=xen (pytest: "
            f"--carico-provider=xen)"
        )
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
        If the provider does not know a setting, or a setting does not take its value.
    MissingExtra
        If the provider needs packages that are not installed.
    """
    if not settings:
        return
    if name in ("kind", "xen"):
        from testbed.real.settings import node_settings

        node_settings(name, settings)
    elif name in REAL or name == EXTERNAL:
        raise InvalidSetting(f"the provider {name} has no settings, got {', '.join(settings)}")
    if name == SIMULATED:
        from testbed.requirements import check_installed

        check_installed()
        from testbed.simulation.parameters import parameters_from

        try:
            parameters_from(settings)
        except InvalidSetting as error:
            raise InvalidSetting(f"{error}; 'carico-testbed list settings' shows all") from error
