"""The user's own cluster: found, never made, and left as it was but for the namespaces of the run.

Others may use it, including other runs of the testbed: a run removes its own namespaces and those of dead runs only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from carico.clock import Clock, SystemClock
from carico.deployment.manifests import NAMESPACE as CARICO
from carico.errors import CaricoError, InvalidConfig, KubeError, KubeRefused, KubeUnreachable
from carico.kube.client import kubeconfig_problem
from testbed.cluster_options import ClusterOptions
from testbed.errors import ClusterError, NoCluster
from testbed.real.api import ClusterApi
from testbed.real.external.heartbeat import BEAT_S, Heartbeat, OtherRuns, run_of
from testbed.real.lifecycle import Cluster, connected
from testbed.real.namespaces import CLEAN_TIMEOUT_S, TESTBED_NAMESPACE
from testbed.real.nodes import usable_nodes
from testbed.real.waiting import wait_until
from testbed.requirements import Problem
from testbed.results.files import make_folder

CLOCKS_APART_S = 2.0
"""The most by which the cluster's clock may differ from this machine's: times of pods come from both."""
_LAST_LINES = 1000
_RIGHTS = {
    "namespaces": ("create", "get", "list", "patch", "delete"),  # without patch other runs take this one for dead
    "pods": ("list", "watch", "deletecollection"),
    "pods/log": ("get",),
    "nodes": ("list",),
    "events": ("list",),
    "serviceaccounts": ("get",),
    "jobs.batch": ("create", "list", "deletecollection"),
}
"""The rights that docs/how-to/external-cluster.md lists; all are checked first, as a run needs some only at its end."""


class ExternalCluster:
    """A `ClusterLifecycle` of the user's own cluster.

    Parameters
    ----------
    options : ClusterOptions
        Must name a kubeconfig.
    connect : callable, optional
        Returns the API that a kubeconfig and a context lead to.
    clock : Clock, optional
    beat_s : float
        Seconds between two heartbeats.
    wall : callable, optional
        Seconds since 1970.
    """

    kind = "external"
    on_this_machine = False

    def __init__(
        self,
        options: ClusterOptions,
        connect: Callable[[Path, str | None], ClusterApi] = connected,
        clock: Clock | None = None,
        beat_s: float = BEAT_S,
        wall: Callable[[], float] = time.time,
    ) -> None:
        assert options.kubeconfig is not None
        self._kubeconfig = options.kubeconfig
        self._options = options
        self._connect = connect
        self._others = OtherRuns(SystemClock() if clock is None else clock)
        self._beat_s = beat_s
        self._wall = wall
        self._cluster: Cluster | None = None
        self._heartbeat: Heartbeat | None = None
        self._reported: set[str] = set()

    @property
    def name(self) -> str:
        """The cluster's name in messages."""
        return self._options.context or f"of {self._kubeconfig.name}"

    @cached_property
    def api(self) -> ClusterApi:
        """The cluster's API; raises NoCluster if the kubeconfig leads nowhere."""
        try:
            return self._connect(self._kubeconfig, self._options.context)
        except CaricoError as error:
            cause = error.__cause__ or error
            problem = kubeconfig_problem(cause) if isinstance(error, InvalidConfig) else str(cause)
            raise self._none(problem) from error

    def unusable(self, error: KubeError) -> ClusterError:
        """Return what a failed call means before anything is run: no cluster if there is no answer."""
        return (
            self._none(error) if isinstance(error, KubeUnreachable) else ClusterError(f"cluster {self.name}: {error}")
        )

    def _none(self, problem: object) -> NoCluster:
        return NoCluster(f"the kubeconfig {self._kubeconfig} leads to no cluster: {problem}")

    def made_from(self) -> Mapping[str, str]:
        """Return nothing: others have made the cluster; see `ClusterLifecycle`."""
        return {}

    @cached_property
    def kubernetes_version(self) -> str:
        """The API server's version; see `ClusterLifecycle`."""
        try:
            return self.api.version()
        except KubeError as error:
            raise ClusterError(f"the version of cluster {self.name} cannot be read: {error}") from error

    def preflight(self) -> Sequence[Problem]:
        """Check rights, a namespace, nodes and clocks; see `ClusterProvider.preflight`."""
        try:
            api = self.api
        except ClusterError as error:
            return [Problem(str(error), "name another with --kubeconfig and --context (pytest: --carico-...)")]
        try:
            lacking, found = self._lacking_rights(), self._clocks_apart(api)
            if lacking:
                what = f"cluster {self.name} does not let you {', '.join(lacking)} in all namespaces"
                return [*found, Problem(what, "ask for the rights that docs/how-to/external-cluster.md lists")]
            api.create_namespace(f"carico-{self._options.run.lower()}", self._options.run, only_try=True)
            nodes = api.nodes()
        except KubeError as error:
            remedy = "make sure that `kubectl create namespace` and `get nodes` work with this kubeconfig and context"
            return [Problem(f"cluster {self.name} cannot be used: {error}", remedy)]
        if not usable_nodes(nodes):
            what = f"cluster {self.name} has {len(nodes)} nodes, none of them ready and open to any pod"
            found.append(Problem(what, "see conditions, taints and cordons in `kubectl describe nodes`"))
        return found

    def collect_logs(self, cluster: Cluster, into: Path) -> None:
        """Copy the last lines of CARICO's logs if it is deployed, and none of the control plane, which is not ours.

        See `ClusterLifecycle.collect_logs`.
        """
        for pod in self.api.pods_in(CARICO).list()[0]:
            for container in pod["spec"]["containers"]:
                where = pod["metadata"]["name"], container["name"]
                said = self.api.log(CARICO, *where, last_lines=_LAST_LINES)
                make_folder(into / "logs")
                (into / "logs" / f"{'.'.join(where)}.log").write_text(said, encoding="utf-8")

    def open(self) -> Cluster:
        """Return the cluster; the first call starts the run's heartbeat. See `ClusterLifecycle.open`."""
        if self._cluster is None:
            self._cluster = Cluster(
                name=self.name,
                kind=self.kind,
                kubernetes_version=self.kubernetes_version,
                kubeconfig=self._kubeconfig,
                api=self.api,
                folder=self._kubeconfig.parent,
                context=self._options.context,
            )
            self._heartbeat = Heartbeat(self.api, self._options.run, self._beat_s, self._options.say)
            self._heartbeat.start()
        return self._cluster

    def clean(self) -> None:
        """Remove the namespaces of this run, and of runs that are dead; see `ClusterLifecycle.clean`."""
        alive: set[str] = set()
        wait_until("the namespaces of earlier repetitions are gone", lambda: self._remaining(alive), CLEAN_TIMEOUT_S)

    def close(self) -> None:
        """Wait until the namespaces of this run are gone; see `ClusterLifecycle.close`."""
        heartbeat, self._heartbeat, self._cluster = self._heartbeat, None, None
        try:
            if heartbeat is not None:
                wait_until("the namespaces of this run are gone", self._own_remaining, CLEAN_TIMEOUT_S)
        except KubeError as error:
            raise ClusterError(
                f"cluster {self.name}: namespaces of run {self._options.run} are left: {error}"
            ) from error
        finally:
            if heartbeat is not None:
                heartbeat.stop()
            if "api" in self.__dict__:
                self.api.close()

    def _clocks_apart(self, api: ClusterApi) -> list[Problem]:
        """Compare the API server's clock with this machine's, within a second and the time that the call takes."""
        asked_at = self._wall()
        whole_seconds = api.time()
        least_s, most_s = whole_seconds - self._wall(), whole_seconds + 1 - asked_at
        if least_s <= CLOCKS_APART_S and most_s >= -CLOCKS_APART_S:
            return []
        ahead_s = (least_s + most_s) / 2
        what = (
            f"the clock of cluster {self.name} is {abs(ahead_s):.1f} s {'ahead of' if ahead_s > 0 else 'behind'} this "
            f"machine's, at most {CLOCKS_APART_S:g} s are wanted"
        )
        return [Problem(what, "set the clocks of the API server, of the nodes and of this machine by NTP")]

    def _lacking_rights(self) -> list[str]:
        try:
            asked = [(verb, resource) for resource, verbs in _RIGHTS.items() for verb in verbs]
            return [f"{verb} {resource}" for verb, resource in asked if not self.api.may(verb, resource)]
        except KubeRefused:  # if even the question is refused, the run itself finds out
            return []

    def _own_remaining(self) -> str:
        own = [one["metadata"]["name"] for one in self.api.namespaces() if run_of(one) == self._options.run]
        for name in own:
            self.api.delete_namespace(name)
        return f"there are still {', '.join(own)}" if own else ""

    def _remaining(self, alive: set[str]) -> str:
        """Remove own and dead runs' namespaces; return what is not gone yet, and add living namespaces to `alive`."""
        left = []
        for namespace in self.api.namespaces():
            name, run = namespace["metadata"]["name"], run_of(namespace)
            if name == TESTBED_NAMESPACE:  # our namespace, if the testbed made the cluster
                continue
            is_alive = name in alive or self._others.is_alive(namespace)
            if run == self._options.run or is_alive is False:
                self.api.delete_namespace(name)
                left.append(name)
                continue
            if is_alive is None:
                left.append(f"{name}, whose run {run} may be alive")
                continue
            alive.add(name)
            if run not in self._reported:
                self._reported.add(run)
                self._options.say(f"run {run} measures on this cluster, too: the two disturb each other")
        return f"there are still {', '.join(left)}" if left else ""
