"""The life of a real cluster: made when it is needed, used again only if it is the same, removed unless it is kept.

A cluster belongs to a process. The next process that opens a cluster removes what killed processes have left, and
nothing else: clusters in use and kept clusters are not touched. A set-up that fails or is interrupted is torn down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from carico.errors import CaricoError
from carico.kube.client import KubeClient
from testbed.cluster_options import ClusterOptions
from testbed.errors import ClusterError, TestbedError
from testbed.real.api import ClusterApi
from testbed.real.maker import ClusterMaker
from testbed.real.namespaces import TESTBED_NAMESPACE, wait_until_clean
from testbed.real.nodes import is_ready
from testbed.real.registry import ClusterFolder, Registered, Registry
from testbed.real.waiting import wait_until
from testbed.requirements import Problem
from testbed.results.files import make_folder

FINGERPRINT = "fingerprint"
READY_TIMEOUT_S = 60.0
_SESSION_LETTERS = 13
"""Letters of the session in a cluster's name. The name of a node has at most 63 letters: "carico-kind-", the 23 of a
run's id, a hyphen, these letters, and "-control-plane"."""
SILENCE_S = 10.0
"""A watch that receives nothing for this long is opened again, so a thread that watches ends within this time."""


@dataclass(frozen=True)
class Cluster:
    """A cluster that can be used."""

    name: str
    kind: str
    kubernetes_version: str
    kubeconfig: Path
    api: ClusterApi
    folder: Path
    """The folder with the maker's files."""
    context: str | None = None
    """The context of the kubeconfig to use; None for its current one."""


class ClusterLifecycle(Protocol):
    """The cluster of one session, from the preflight to `close`."""

    @property
    def kind(self) -> str:
        """The provider's name, for example "kwok"."""
        ...

    @property
    def on_this_machine(self) -> bool:
        """Whether the cluster shares the CPUs of the process that measures."""
        ...

    @property
    def kubernetes_version(self) -> str:
        """The version that it runs, for example "v1.34.4"; raises TestbedError if that cannot be found out."""
        ...

    def made_from(self) -> Mapping[str, str]:
        """Return what makes it; see `ClusterProvider.made_from`."""
        ...

    def preflight(self) -> Sequence[Problem]:
        """Return what is missing to use it; see `ClusterProvider.preflight`."""
        ...

    def open(self) -> Cluster:
        """Return the cluster; raises ClusterError if there is none that can be used."""
        ...

    def clean(self) -> None:
        """Remove what earlier repetitions have left, and wait until it is gone.

        Raises
        ------
        WaitTimedOut
            If it is not gone in time.
        KubeError
            If the API server refuses.
        """
        ...

    def collect_logs(self, cluster: Cluster, into: Path) -> None:
        """Copy the logs that may explain a failed run into a folder; raises ClusterError if any cannot be read."""
        ...

    def close(self) -> None:
        """Give up the cluster; raises ClusterError if something that must be removed is still there."""
        ...


class MadeCluster:
    """A `ClusterLifecycle` that makes a cluster for the session, or uses a kept one again.

    Parameters
    ----------
    maker : ClusterMaker
    options : ClusterOptions
    registry : Registry, optional
    connect : callable, optional
        Returns the API that a kubeconfig leads to.
    """

    def __init__(
        self,
        maker: ClusterMaker,
        options: ClusterOptions,
        registry: Registry | None = None,
        connect: Callable[[Path], ClusterApi] | None = None,
    ) -> None:
        self._maker = maker
        self._options = options
        self._registry = Registry() if registry is None else registry
        self._connect = connected if connect is None else connect
        self._folder: ClusterFolder | None = None
        self._cluster: Cluster | None = None

    @property
    def kind(self) -> str:
        """See `ClusterLifecycle`."""
        return self._maker.kind

    @property
    def on_this_machine(self) -> bool:
        """See `ClusterLifecycle`."""
        return self._maker.on_this_machine

    @property
    def kubernetes_version(self) -> str:
        """See `ClusterLifecycle`."""
        return self._maker.kubernetes_version

    def made_from(self) -> Mapping[str, str]:
        """Return the maker's fingerprint; see `ClusterMaker.fingerprint`."""
        return self._maker.fingerprint()

    def preflight(self) -> Sequence[Problem]:
        """Ask the maker; see `ClusterProvider.preflight`."""
        return self._maker.preflight()

    def open(self) -> Cluster:
        """Return the cluster; the first call makes it, or takes a kept one.

        Raises
        ------
        ClusterError
            If it cannot be made; in that case nothing of it is left.
        """
        if self._cluster is None:
            self._cluster = self._kept() or self._made()
        return self._cluster

    def clean(self) -> None:
        """Remove the namespaces of all runs, as no other session uses the cluster; see `ClusterLifecycle.clean`."""
        wait_until_clean(self.open().api)

    def collect_logs(self, cluster: Cluster, into: Path) -> None:
        """Ask the maker; see `ClusterMaker.collect_logs`."""
        self._maker.collect_logs(cluster.name, cluster.folder, into)

    def close(self) -> None:
        """Give up the cluster: remove it, unless it is kept.

        Raises
        ------
        ClusterError
            If something of it is still there; the next session, or `carico-testbed clean`, tries again.
        """
        folder, self._folder = self._folder, None
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.api.close()
        if folder is None:
            return
        noted = folder.read()
        if noted.kept:
            folder.release()
            self._options.say(f"cluster {noted.name} is kept; to remove it: carico-testbed clean")
            return
        try:
            self._maker.delete(noted.name, folder.files)
            folder.remove()
        finally:
            folder.release()

    def _kept(self) -> Cluster | None:
        """Return a kept cluster, if the options ask for one and it equals a new one; remove it if it differs."""
        options, kind = self._options, self._maker.kind
        with self._registry.locked():
            for said in sweep(self._registry, {kind: self._maker}, kept=False):
                options.say(said)
            if not (options.keep_cluster or options.recreate_cluster):
                return None
            mine = [
                (folder, noted)
                for folder, noted in self._registry.all()
                if noted.kept and noted.kind == kind and noted.session == options.session and not folder.is_used
            ]
            if not mine:
                return None
            folder, noted = mine[0]
            folder.hold()
        try:
            cluster, why = None, "a new one is asked for"
            if not options.recreate_cluster:
                cluster = self._described(noted.name, folder)
                why = self._differences(cluster)
            if why:
                options.say(f"kept cluster {noted.name} is not used again: {why}")
                if cluster is not None:
                    cluster.api.close()
                self._maker.delete(noted.name, folder.files)
                folder.remove()
                return None
        except BaseException:
            folder.release()
            raise
        self._folder = folder
        return cluster

    def _made(self) -> Cluster:
        options, kind = self._options, self._maker.kind
        session = _plain(options.session)[:_SESSION_LETTERS].rstrip("-")
        name = "-".join(filter(None, ("carico", kind, options.run.lower(), session)))
        noted = Registered(name, kind, options.run, options.session)
        self._folder = folder = self._registry.folder(name)
        with self._registry.locked():
            folder.write(noted)
            folder.hold()
        try:
            cluster = self._set_up(name, folder)
        except BaseException as error:
            try:
                self.close()
            except TestbedError as another:
                error.add_note(f"and then: {another}")
            if isinstance(error, CaricoError):
                raise ClusterError(f"the new cluster {name} cannot be used: {error}") from error
            raise
        # Only now, because a cluster whose set-up was killed must not count as kept: it would never be swept.
        if options.keep_cluster:
            folder.write(msgspec.structs.replace(noted, kept=True))
        return cluster

    def _set_up(self, name: str, folder: ClusterFolder) -> Cluster:
        try:
            self._maker.create(name, folder.files, self._maker.create_timeout_s)
            cluster = self._described(name, folder)
            wait_until_api_answers(cluster.api, READY_TIMEOUT_S)
            cluster.api.create_namespace(TESTBED_NAMESPACE, self._options.run)
            cluster.api.create_config_map(TESTBED_NAMESPACE, FINGERPRINT, self._maker.fingerprint())
        except Exception:  # not Ctrl-C: an interruption needs no diagnostics
            self._diagnose(name, folder)
            raise
        return cluster

    def _diagnose(self, name: str, folder: ClusterFolder) -> None:
        """Copy the logs of a cluster that is about to be removed, as far as they can be read."""
        if self._options.diagnostics is None:
            return
        into = self._options.diagnostics / name
        with suppress(TestbedError, OSError):  # the error of the set-up is the one to report
            make_folder(into)
            self._maker.collect_logs(name, folder.files, into)
        if into.is_dir() and any(into.iterdir()):
            self._options.say(f"diagnostics: {into}")

    def _differences(self, cluster: Cluster) -> str:
        """Return in words how a kept cluster differs from the wanted one; an empty string if it does not."""
        try:
            there = cluster.api.config_map(TESTBED_NAMESPACE, FINGERPRINT)
            # Of its own machines, which have its name; a control plane may outlive them.
            own = [node for node in cluster.api.nodes() if node["metadata"]["name"].startswith(f"{cluster.name}-")]
        except CaricoError as error:
            return str(error)
        if there is None:
            return "it has no fingerprint"
        if lost := [node["metadata"]["name"] for node in own if not is_ready(node)]:
            return f"its node {lost[0]} is not ready"
        wanted = self._maker.fingerprint()
        differing = sorted(name for name in {*there, *wanted} if there.get(name) != wanted.get(name))
        return ", ".join(f"its {name} is {there.get(name)}, wanted is {wanted.get(name)}" for name in differing)

    def _described(self, name: str, folder: ClusterFolder) -> Cluster:
        kubeconfig = self._maker.kubeconfig(name, folder.files)
        try:
            api = self._connect(kubeconfig)
        except CaricoError as error:
            raise ClusterError(f"cluster {name} cannot be used: {error}") from error
        return Cluster(
            name=name,
            kind=self._maker.kind,
            kubernetes_version=self._maker.kubernetes_version,
            kubeconfig=kubeconfig,
            api=api,
            folder=folder.files,
        )


def connected(kubeconfig: Path, context: str | None = None) -> ClusterApi:
    """Return the API that a kubeconfig leads to; raises InvalidConfig if it leads nowhere."""
    return ClusterApi(KubeClient.from_config(str(kubeconfig), context, silence_s=SILENCE_S))


def wait_until_api_answers(api: ClusterApi, timeout_s: float) -> None:
    """Wait until the API server answers; see `wait_until`."""

    def lacking() -> str:
        api.nodes()
        return ""

    wait_until("the API server answers", lacking, timeout_s)


def sweep(registry: Registry, makers: Mapping[str, ClusterMaker], kept: bool) -> Iterable[str]:
    """Remove the clusters whose process is gone, including kept ones if `kept`; return a message for each.

    The caller must hold the registry's lock.
    """
    said = []
    for folder, noted in registry.all():
        maker = makers.get(noted.kind)
        if maker is None or folder.is_used or (noted.kept and not kept):
            continue
        try:
            said.append(_removed(folder, noted, maker))
        except TestbedError as error:
            said.append(f"cluster {noted.name} cannot be removed: {error}")
    return said


def _removed(folder: ClusterFolder, noted: Registered, maker: ClusterMaker) -> str:
    maker.delete(noted.name, folder.files)
    folder.remove()
    return f"cluster {noted.name} is removed: " + ("it was kept" if noted.kept else "its run was killed")


def _plain(text: str) -> str:
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text.lower())
