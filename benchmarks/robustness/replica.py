"""One replica of the extender as a process that can be killed: CARICO's own classes, in virtual time.

`new_extender`, `Reflector`, `ReportOrder`, the parsing and the checkpoint are production's; sockets and threads are
replaced. An answer that is held lets the rest of the model go on until it is given.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import simpy
from prometheus_client import CollectorRegistry

from benchmarks.robustness.api import Api, WatchedPods
from benchmarks.robustness.history import History
from carico.checkpoint import continue_from, write_checkpoint
from carico.config import ExtenderConfig
from carico.demand.settings import DemandVariant
from carico.errors import CaricoError, InvalidInput
from carico.extender.api import read_args, write_result
from carico.extender.demand_extender import DemandExtender
from carico.extender.kept_costs import OWNER
from carico.extender.metrics import ExtenderMetrics
from carico.extender.process import CHECKPOINT_EVERY_S, new_extender
from carico.extender.report_server import ReportOrder
from carico.kube.reflector import HURRIED_S, Reflector
from carico.model.variants import Variant
from carico.rpc.messages import read_report
from carico.scheduling.scheduler import TICK_S

Steps = Generator[simpy.Event, Any, None]


class Unanswered(CaricoError):
    """The extender was killed before it answered."""


class VirtualClock:
    """The model's time as a `Clock`."""

    def __init__(self, env: simpy.Environment) -> None:
        self._env = env

    def now(self) -> float:
        """Return the time, seconds."""
        return float(self._env.now)

    def sleep_until(self, at: float) -> None:
        """Refuse: nothing in an extender sleeps."""
        raise NotImplementedError


class VirtualCondition(threading.Condition):
    """A condition whose waiting lets the model go on; nothing in the model runs at the same time as anything else."""

    def __init__(self, env: simpy.Environment, alive: Callable[[], bool]) -> None:
        super().__init__()
        self._env = env
        self._alive = alive

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Run the model until the predicate holds, the time is over, or the process is killed."""
        over = self._env.timeout(float("inf") if timeout is None else timeout)
        while not predicate() and not over.processed:
            self._env.step()
            if not self._alive():
                raise Unanswered("killed while an answer was held")
        return predicate()

    def notify_all(self) -> None:
        """Do nothing: whoever waits looks after every step."""


class Replica:
    """An extender and the state that a kill destroys.

    Parameters
    ----------
    name : str
    env : simpy.Environment
    api : Api
    variant : Variant or DemandVariant
    config : ExtenderConfig
    rng : random.Random
    checkpoint : Path
        The file that outlives the process.
    history : History
    annotated : callable
        Called when the API shows a node's new annotation.
    """

    def __init__(
        self,
        name: str,
        env: simpy.Environment,
        api: Api,
        variant: Variant | DemandVariant,
        config: ExtenderConfig,
        rng: random.Random,
        checkpoint: Path,
        history: History,
        annotated: Callable[[], None],
    ) -> None:
        self.name = name
        self._env = env
        self._api = api
        self._variant = variant
        self._config = config
        self._rng = rng
        self.checkpoint = checkpoint
        self._history = history
        self._annotated = annotated
        self._life = 0
        self.alive = False
        self.start()

    def start(self) -> None:
        """Start a process, which continues from the checkpoint."""
        self._life += 1
        self.alive = True
        life = self._life
        self.registry = CollectorRegistry()
        clock = VirtualClock(self._env)
        condition = VirtualCondition(self._env, lambda: self.alive and life == self._life)
        self.core, selector = new_extender(
            self._config,
            self._variant,
            None,
            clock,
            ExtenderMetrics(self.registry),
            lambda node, room: self._while_alive(self._annotate(node)),
            condition,
        )
        if isinstance(self.core, DemandExtender):
            continue_from(self.checkpoint, self._variant.name, self.core.restore, owner=OWNER)
            self._while_alive(self._keep(self.core))
        self._order = ReportOrder(clock)
        self.pods = WatchedPods(self._env, self._api, selector, self._rng)
        core = self.core
        self.reflector = Reflector(
            self.pods,
            core.pod_seen,
            clock,
            self._rng,
            deleted=core.pod_deleted,
            listed=lambda: core.pods_listed(True),
            following=core.pods_followed,
        )
        self._hurried = self._env.event()
        core.hurry, core.catch_up = self._hurry, self.reflector.catch_up
        self._while_alive(self._follow(self.reflector, self.pods))
        self._while_alive(self._tick())
        self._history.note(f"{self.name}: started")

    def kill(self) -> None:
        """Kill the process (SIGKILL)."""
        self.alive = False
        self.pods.close()
        self._history.note(f"{self.name}: killed")

    def filter(self, body: bytes) -> bytes:
        """Answer a request of kube-scheduler.

        Raises
        ------
        CaricoError
            If the answer is an error, or there is none.
        """
        if not self.alive:
            raise Unanswered("connection refused")
        return write_result(self.core.filter(read_args(body)))

    def report(self, data: bytes) -> None:
        """Take in the report of an agent, as `CapacityServer` does."""
        if not self.alive:
            return
        report, _ = read_report(data)
        if self._order.is_late(report):
            return
        try:
            self.core.report(report)
        except InvalidInput as error:
            self._history.violation(f"a sound report was refused: {error}")
        self._order.passed_on(report)

    def metric(self, name: str) -> float:
        """Return a metric without labels."""
        return self.registry.get_sample_value(name) or 0.0

    def _while_alive(self, steps: Steps) -> None:
        life = self._life

        def run() -> Steps:
            for event in steps:
                yield event
                if not (self.alive and life == self._life):
                    return

        self._env.process(run())

    def _follow(self, reflector: Reflector, pods: WatchedPods) -> Steps:
        while True:
            pods.news = self._env.event()
            wait_s = reflector.follow()
            if not wait_s:
                yield pods.news
                continue
            self._hurried = self._env.event()
            yield self._env.timeout(min(wait_s, HURRIED_S))
            if wait_s > HURRIED_S:
                yield self._env.timeout(wait_s - HURRIED_S) | self._hurried

    def _hurry(self) -> None:
        if not self._hurried.triggered:
            self._hurried.succeed()

    def _tick(self) -> Steps:
        while True:
            yield self._env.timeout(TICK_S)
            self.core.tick()

    def _keep(self, core: DemandExtender) -> Steps:
        while True:
            yield self._env.timeout(CHECKPOINT_EVERY_S)
            write_checkpoint(self.checkpoint, self._variant.name, core.state(), owner=OWNER)

    def _annotate(self, node: str) -> Steps:
        yield self._env.timeout(self._rng.uniform(0.01, 0.05))
        while not self._api.up:
            yield self._env.timeout(1.0)
        self._history.note(f"{self.name}: annotated {node}")
        self._annotated()
