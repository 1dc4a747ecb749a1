"""The fixture `carico_seeds`: a statement is judged on each seed separately, and the session says on how many it holds.

A statement that is true of the average over a few seeds may be false on most of them, and a single seed may be a lucky
one. So a test compares runs seed by seed, and passes if its statement holds on more than half of the seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from testbed.experiment.session import Experiment
    from testbed.results.schema import Repetition


class Seeds:
    """Iterates over the session's seeds; see `SeedExperiment`.

    Parameters
    ----------
    experiment : Experiment
    seeds : sequence of int
    record : callable
        Called before the verdict with two numbers: of the seeds on which the statement held, and of all seeds.

    Examples
    --------
    In a test::

        def test_pods_complete_earlier(carico_seeds):
            for seed in carico_seeds:
                with seed:
                    ours, theirs = (seed.run("pi-2000", scheduler) for scheduler in ("carico", "kube-scheduler"))
                    assert mean_pct(ours) < mean_pct(theirs)
    """

    def __init__(self, experiment: Experiment, seeds: Sequence[int], record: Callable[[tuple[int, int]], None]) -> None:
        self._experiment = experiment
        self._seeds = seeds
        self._record = record

    def __iter__(self) -> Iterator[SeedExperiment]:
        """Yield the experiment of every seed, and judge after the last one.

        Raises
        ------
        AssertionError
            If the statement does not hold on more than half of the seeds; the message has the assertions that failed.
        """
        judged = []
        for seed in self._seeds:
            one = SeedExperiment(self._experiment, seed)
            judged.append(one)
            yield one
            if not one.judged:
                raise RuntimeError("a seed was not judged: put the test's body into `with seed:`")
        failed = [one for one in judged if one.failure is not None]
        held = len(judged) - len(failed)
        self._record((held, len(judged)))
        if 2 * held <= len(judged):
            told = "\n".join(f"seed {one.seed}: {one.failure}" for one in failed)
            raise AssertionError(f"holds on {held} of {len(judged)} seeds\n{told}")


class SeedExperiment:
    """The experiment on one seed: a context in which a failed assertion is counted instead of raised.

    Parameters
    ----------
    experiment : Experiment
        The session's.
    seed : int
    """

    def __init__(self, experiment: Experiment, seed: int) -> None:
        self.seed = seed
        self.settings = experiment.settings
        self.failure: AssertionError | None = None
        self.judged = False
        self._experiment = experiment

    def __enter__(self) -> Self:
        """Begin to judge."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Note a failed assertion."""
        self.judged = True
        if isinstance(error, AssertionError):
            self.failure = error
        return isinstance(error, AssertionError)

    def run(self, *args: Any, **kwargs: Any) -> list[Repetition]:
        """Run a scenario once, on this seed; arguments as for `Experiment.run`."""
        return self._experiment.run(*args, seed=self.seed, repetitions=1, **kwargs)

    def compare(self, *args: Any, **kwargs: Any) -> dict[str, list[Repetition]]:
        """Run a scenario once under several schedulers; arguments as for `Experiment.compare`."""
        return self._experiment.compare(*args, seed=self.seed, repetitions=1, **kwargs)
