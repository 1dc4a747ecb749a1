"""Where a sweep's repetitions run: in this process, in processes of this machine, or on a Dask cluster.

Workers get a trial and a seed, and return the repetition; they read and write no file of the sweep.
"""

from __future__ import annotations

import pickle
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from testbed.errors import TestbedError, Unprepared
from testbed.experiment.processes import process_pool
from testbed.experiment.provider import Trial
from testbed.requirements import check_installed
from testbed.results.provenance import packages
from testbed.results.schema import Repetition
from testbed.schedulers.spec import OwnSpec

DASK_TIMEOUT_S = 20.0
DECISIVE = ("carico-testbed", "msgspec", "numpy", "simpy")
"""The packages whose versions decide results."""


@dataclass(frozen=True)
class Pool:
    """An executor, and how many repetitions it has at a time."""

    executor: Executor
    window: int
    packed: Callable[[Trial], bytes] | None = None
    """Returns a trial as workers need it that cannot import what this process can; None if they can."""

    def submit(self, trial: Trial, seed: int) -> Future[Repetition]:
        """Let a worker run a repetition."""
        if self.packed is None:
            return self.executor.submit(_run, trial, seed)
        return self.executor.submit(_run_packed, self.packed(trial), seed)


def _run(trial: Trial, seed: int) -> Repetition:
    return trial.run(seed)


def _run_packed(packed: bytes, seed: int) -> Repetition:
    trial: Trial = pickle.loads(packed)  # noqa: S301 (from the process that has started the sweep)
    return trial.run(seed)


class Inline(Executor):
    """Runs everything at once, in the calling thread: for one worker, and for clusters that cannot be shared."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function; see `Executor.submit`."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def local(workers: int) -> Iterator[Pool]:
    """Use that many processes of this machine; this one if it is one."""
    if workers == 1:
        yield Pool(Inline(), 1)
        return
    with process_pool(workers) as executor:
        yield Pool(executor, 2 * workers)


@contextmanager
def dask_client(address: str) -> Iterator[Any]:
    """Connect to a Dask cluster whose workers can run repetitions.

    Parameters
    ----------
    address : str
        Of its scheduler, for example ``tcp://10.0.0.1:8786``.

    Raises
    ------
    MissingExtra
        If the package distributed is not installed.
    Unprepared
        If no scheduler answers, it has no workers, or their packages would give other results.
    """
    check_installed("scale")
    import distributed
    from distributed.comm.addressing import get_address_host_port

    connect: Any = distributed.Client  # untyped

    try:
        # A client that was not connected hangs when it is deleted, and says so with a traceback.
        socket.create_connection(get_address_host_port(address), timeout=DASK_TIMEOUT_S).close()
        client = connect(address, timeout=DASK_TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise Unprepared(f"no Dask scheduler answers at {address}: {error}") from error
    with client:
        cores = client.ncores()
        if not cores:
            raise Unprepared(f"the Dask scheduler at {address} has no workers: start one with `dask worker {address}`")
        try:
            there = client.run(packages)
        except Exception as error:
            raise Unprepared(f"the Dask workers at {address} have no carico-testbed: {error}") from error
        ours = packages()
        for worker, theirs in there.items():
            for name in DECISIVE:
                if theirs.get(name) != ours.get(name):
                    raise Unprepared(
                        f"the Dask worker {worker} has {name} {theirs.get(name)}, here is {ours.get(name)}: results "
                        f"would differ; install the same version"
                    )
        yield client


@contextmanager
def dask(client: Any, trials: Iterable[Trial]) -> Iterator[Pool]:
    """Use a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
        See `dask_client`.
    trials : iterable of Trial
        What will be run: modules of schedulers of one's own are sent to the workers.

    Raises
    ------
    TestbedError
        If a run fails, or the cluster.
    """
    import cloudpickle

    address = client.scheduler.address
    for module in {trial.scheduler.kind.__module__ for trial in trials if isinstance(trial.scheduler, OwnSpec)}:
        cloudpickle.register_pickle_by_value(sys.modules[module])
    try:
        yield Pool(client.get_executor(pure=False), 2 * sum(client.ncores().values()), cloudpickle.dumps)
    except TestbedError:
        raise
    except Exception as error:  # Dask's own: its packages have many
        raise TestbedError(f"the Dask cluster at {address}: {error}") from error
