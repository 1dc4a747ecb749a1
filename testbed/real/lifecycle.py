"""The life of a real cluster: made when it is needed, used again only if it is the same, removed unless it is kept.

A cluster belongs to a process. What a killed one leaves is removed by the next that looks, and only that: a cluster in
use, or one that is kept, is not touched. Set-up that fails, or is interrupted, is torn down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from carico.errors import CaricoError
from carico.kube.client import KubeClient
from testbed.errors import ClusterError, TestbedError
from testbed.experiment.cluster_options import Wishes
from testbed.real.api import ClusterApi
from testbed.real.maker import ClusterMaker
from testbed.real.namespaces import OWN, wait_until_clean
from testbed.real.registry import ClusterFolder, Registered, Registry
from testbed.real.waiting import wait_until
from testbed.results.files import make_folder

FINGERPRINT = "fingerprint"
CREATE_TIMEOUT_S = 600.0
READY_TIMEOUT_S = 60.0
_SESSION_LETTERS = 13
"""Of a cluster's name, of 63 that its nodes' may have: "carico-kind-", a run's id of 23, these, "-control-plane"."""
SILENCE_S = 10.0
"""A stream on which nothing comes for so long is asked for anew: nobody waits longer for the end of a watch."""


@dataclass(frozen=True)
class Cluster:
    """A cluster that can be used."""

    name: str
    kind: str
    kubernetes_version: str
    kubeconfig: Path
    api: ClusterApi
    folder: Path
    """What its maker has of it."""
    used_again: bool = False
    context: str | None = None
    """Of the kubeconfig, where its current one leads elsewhere."""


class Life(Protocol):
    """The cluster of one session, from the first use to the end."""

    def open(self) -> Cluster:
        """Return the cluster; raises ClusterError if there is none that can be used."""
        ...

    def clean(self) -> None:
        """Remove what earlier repetitions have left, and return when it is gone.

        Raises
        ------
        WaitTimedOut
            If it does not go in time.
        KubeError
            If the API server refuses.
        """
        ...

    def close(self) -> None:
        """Use the cluster no longer; raises ClusterError if something is left that should not be."""
        ...


class ClusterLife:
    """The `Life` of a cluster that is made for it.

    Parameters
    ----------
    maker : ClusterMaker
    wishes : Wishes
    registry : Registry, optional
    connect : callable, optional
        Returns the API that a kubeconfig leads to.
    """

    def __init__(
        self,
        maker: ClusterMaker,
        wishes: Wishes,
        registry: Registry | None = None,
        connect: Callable[[Path], ClusterApi] | None = None,
    ) -> None:
        self._maker = maker
        self._wishes = wishes
        self._registry = Registry() if registry is None else registry
        self._connect = connected if connect is None else connect
        self._folder: ClusterFolder | None = None
        self._cluster: Cluster | None = None

    def open(self) -> Cluster:
        """Return the cluster; the first call makes it, or takes a kept one.

        Raises
        ------
        ClusterError
            If it cannot be made; nothing of it is left then.
        """
        if self._cluster is None:
            self._cluster = self._kept() or self._made()
        return self._cluster

    def clean(self) -> None:
        """Remove the namespaces of every run; see `Life.clean`. Who uses the cluster is alone on it."""
        wait_until_clean(self.open().api)

    def close(self) -> None:
        """Use the cluster no longer: it is removed, unless it is to be kept.

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
            self._wishes.say(f"cluster {noted.name} is kept; to remove it: carico-testbed clean")
            return
        try:
            self._maker.delete(noted.name, folder.files)
            folder.remove()
        finally:
            folder.release()

    def _kept(self) -> Cluster | None:
        """Return a kept cluster if one is to be used and is what would be made now; else it makes way."""
        wishes, kind = self._wishes, self._maker.kind
        with self._registry.locked():
            for said in sweep(self._registry, {kind: self._maker}, kept=False):
                wishes.say(said)
            if not (wishes.keep or wishes.recreate):
                return None
            mine = [
                (folder, noted)
                for folder, noted in self._registry.all()
                if noted.kept and noted.kind == kind and noted.session == wishes.session and not folder.is_used
            ]
            if not mine:
                return None
            folder, noted = mine[0]
            folder.hold()
        try:
            cluster, why = None, "a new one is asked for"
            if not wishes.recreate:
                cluster = self._described(noted.name, folder, used_again=True)
                why = self._differences(cluster)
            if why:
                wishes.say(f"kept cluster {noted.name} is not used again: {why}")
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
        wishes, kind = self._wishes, self._maker.kind
        session = _plain(wishes.session)[:_SESSION_LETTERS].rstrip("-")
        name = "-".join(filter(None, ("carico", kind, wishes.run.lower(), session)))
        noted = Registered(name, kind, wishes.run, wishes.session)
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
        # Not before it stands: what is left of a set-up that was killed must be swept.
        if wishes.keep:
            folder.write(msgspec.structs.replace(noted, kept=True))
        return cluster

    def _set_up(self, name: str, folder: ClusterFolder) -> Cluster:
        try:
            self._maker.create(name, folder.files, CREATE_TIMEOUT_S)
            cluster = self._described(name, folder)
            wait_until_api_answers(cluster.api, READY_TIMEOUT_S)
            cluster.api.create_namespace(OWN, self._wishes.run)
            cluster.api.create_config_map(OWN, FINGERPRINT, self._maker.fingerprint())
        except Exception:  # not Ctrl-C: who presses it does not ask why
            self._diagnose(name, folder)
            raise
        return cluster

    def _diagnose(self, name: str, folder: ClusterFolder) -> None:
        """Copy the logs of a cluster that is about to be removed, as far as they can be had."""
        if self._wishes.diagnostics is None:
            return
        into = self._wishes.diagnostics / name
        with suppress(TestbedError, OSError):  # what went wrong first is what is told
            make_folder(into)
            self._maker.collect_logs(name, folder.files, into)
        if into.is_dir() and any(into.iterdir()):
            self._wishes.say(f"diagnostics: {into}")

    def _differences(self, cluster: Cluster) -> str:
        """Return what of a kept cluster is not as wanted, in words; nothing if all of it is."""
        try:
            there = cluster.api.config_map(OWN, FINGERPRINT)
        except CaricoError as error:
            return str(error)
        if there is None:
            return "it has no fingerprint"
        wanted = self._maker.fingerprint()
        differing = sorted(name for name in {*there, *wanted} if there.get(name) != wanted.get(name))
        return ", ".join(f"{name} is {there.get(name)} there, {wanted.get(name)} is wanted" for name in differing)

    def _described(self, name: str, folder: ClusterFolder, used_again: bool = False) -> Cluster:
        kubeconfig = self._maker.kubeconfig(name, folder.files)
        try:
            api = self._connect(kubeconfig)
        except CaricoError as error:
            raise ClusterError(f"cluster {name} cannot be used: {error}") from error
        version = self._maker.kubernetes_version
        return Cluster(name, self._maker.kind, version, kubeconfig, api, folder.files, used_again)


def connected(kubeconfig: Path, context: str | None = None) -> ClusterApi:
    """Return the API that a kubeconfig leads to; raises InvalidConfig if it leads nowhere."""
    return ClusterApi(KubeClient.from_config(str(kubeconfig), context, silence_s=SILENCE_S))


def wait_until_api_answers(api: ClusterApi, timeout_s: float) -> None:
    """Return when the API server answers; see `wait_until`."""

    def lacking() -> str:
        api.nodes()
        return ""

    wait_until("the API server answers", lacking, timeout_s)


def sweep(registry: Registry, makers: Mapping[str, ClusterMaker], kept: bool) -> Iterable[str]:
    """Remove the clusters whose process is gone, kept ones only if asked for; return what to say of it.

    Must be called with the registry locked.
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
    return "".join(letter if letter.isalnum() else "-" for letter in text.lower())
