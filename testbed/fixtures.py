"""The fixtures that tests of schedulers are written with. Heavy imports happen when a test asks for one of them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import pytest

from testbed.claims import PAPER_PROPERTY
from testbed.markers import experiment_of
from testbed.state import STATE

if TYPE_CHECKING:
    from testbed.clusters.provider import ClusterProvider
    from testbed.progress import ProgressLine
    from testbed.results.schema import Repetition
    from testbed.session import Experiment


@pytest.fixture(scope="session")
def carico_provider(pytestconfig: pytest.Config) -> ClusterProvider:
    """The cluster that experiments run on, as --carico-provider says; override it to bring one of your own."""
    from testbed.clusters.kinds import provider_named

    return provider_named(pytestconfig.stash[STATE].options.provider)


@pytest.fixture(scope="session")
def carico_experiment(pytestconfig: pytest.Config, carico_provider: ClusterProvider) -> Experiment:
    """Runs scenarios under schedulers: `.run(scenario, scheduler)` returns the repetitions. Nothing is run twice."""
    from testbed.session import Experiment, Remembered

    state = pytestconfig.stash[STATE]
    options = state.options
    return Experiment(
        Remembered(carico_provider, state.parts_folder()),
        options.preset,
        options.repetitions,
        options.seed,
        options.settings,
        _progress_line(pytestconfig),
    )


@pytest.fixture
def carico_results(request: pytest.FixtureRequest, carico_experiment: Experiment) -> dict[str, list[Repetition]]:
    """What the test's marker `carico(scenario=..., scheduler=...)` asks for: the repetitions of every scheduler."""
    asked = experiment_of(request.node)
    if asked is None:
        pytest.fail(
            "the fixture carico_results needs a marker: @pytest.mark.carico(scenario='pi-2000', scheduler=['carico'])",
            pytrace=False,
        )
    return carico_experiment.compare(asked.scenario, asked.schedulers, repetitions=asked.repetitions)


@pytest.fixture
def carico_paper(request: pytest.FixtureRequest) -> Paper:
    """Sets what the test measured beside what the paper says: `.row(what, ours, thesis, unit, note)`."""
    return Paper(request.node.user_properties.append)


class Paper:
    """What the fixture `carico_paper` gives.

    Parameters
    ----------
    record : callable
        Is given every row as a user property of the test, so that it reaches all reports and crosses processes.
    """

    def __init__(self, record: Callable[[tuple[str, object]], None]) -> None:
        self._record = record

    def row(self, what: str, ours: float, thesis: float | None, unit: str = "", note: str = "") -> None:
        """Put a row into the table of the session's summary.

        Parameters
        ----------
        what : str
            The quantity, for example "median PCT, carico".
        ours : float
            What was measured.
        thesis : float or None
            What the paper says; None where it gives no number.
        unit : str
            For example "s".
        note : str
            What a reader must know to judge the row.
        """
        paper = None if thesis is None else float(thesis)
        self._record((PAPER_PROPERTY, {"what": what, "ours": float(ours), "thesis": paper, "unit": unit, "note": note}))


def _progress_line(config: pytest.Config) -> ProgressLine | None:
    """A line that gets past pytest's capturing; None where nobody reads it: with -q and in xdist's workers."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is None or reporter.verbosity < 0:
        return None
    from testbed.progress import PERIOD_S, ProgressLine

    capturing = config.pluginmanager.getplugin("capturemanager")
    writer = config.get_terminal_writer()

    def uncaptured() -> AbstractContextManager[None]:
        return nullcontext() if capturing is None else capturing.global_and_fixture_disabled()

    def log(text: str) -> None:
        with uncaptured():
            reporter.ensure_newline()
            reporter.write(text, flush=True)

    def rewrite(text: str) -> None:
        # Not through the reporter: it must not notice, and goes on where it was.
        with uncaptured():
            sys.stdout.write(text)
            sys.stdout.flush()

    def around() -> tuple[str, str]:
        # Back up to where the dots were; a long line may have been wrapped.
        column = writer.width_of_current_line % shutil.get_terminal_size().columns
        return "\n", "\x1b[1A" + (f"\x1b[{column}C" if column else "")

    if reporter.isatty and os.environ.get("TERM") != "dumb":
        return ProgressLine(rewrite, rewritten=True, around=around)
    return ProgressLine(log, rewritten=False, patience_s=PERIOD_S)
