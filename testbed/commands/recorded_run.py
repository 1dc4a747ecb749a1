"""The run of a command: checked before it starts, recorded to its end, with progress on standard error."""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from carico.errors import CaricoError
from carico.printable import printable
from testbed.cluster_flags import chosen
from testbed.cluster_options import ClusterOptions
from testbed.errors import ResultsError, TestbedError, Unprepared
from testbed.experiment.cache import Cache
from testbed.experiment.plan import CheckedPlan, Pass, Plan
from testbed.experiment.preflight import listed, missing_prerequisites, output_problems
from testbed.experiment.progress import Pace, line_on_stderr, phase_of
from testbed.experiment.provider import ClusterProvider, Progress
from testbed.measurement.own import installed
from testbed.requirements import Problem
from testbed.results import runs_folder
from testbed.results.ending import Ending, end_run
from testbed.results.record import RunArguments, RunRecord
from testbed.results.run import RunState
from testbed.results.run_id import new_run_id
from testbed.results.runs import killed_run_notices


class RecordedRun:
    """One run of a command, in the folder where the command was started.

    Parameters
    ----------
    options : argparse.Namespace
        The options of `add_cluster_options`, `quiet`, and `arguments`, the command line.
    plan : Plan
    """

    def __init__(self, options: argparse.Namespace, plan: Plan) -> None:
        self._options = options
        self._root = Path.cwd()
        self._line = line_on_stderr()
        self._pace = Pace()
        self.id = new_run_id(datetime.now(UTC), secrets.token_hex(2)[1:])
        self.plan = plan
        self.cluster_options = ClusterOptions(
            self.id, diagnostics=runs_folder(self._root) / self.id / "diagnostics", say=tell, **chosen(vars(options))
        )
        arguments = RunArguments(
            command=["carico-testbed", *options.arguments],
            preset=None,
            repetitions=plan.repetitions,
            seed=plan.seed,
            settings=plan.settings,
            attempts=options.attempts,
        )
        self._measurements = installed()
        self._record = RunRecord(self._root, self.id, arguments)

    def checked(
        self, provider: ClusterProvider, files: Sequence[Path | None] = (None,), problems: Sequence[Problem] = ()
    ) -> CheckedPlan:
        """Check everything that would fail later, before anything is created.

        Parameters
        ----------
        provider : ClusterProvider
        files : sequence of Path or None
            The files that will be written at the end.
        problems : sequence of Problem
            Problems that the command itself has found.

        Raises
        ------
        UsageError
            If the plan cannot be run.
        Unprepared
            If something is missing; the message lists everything that is.
        """
        plan = self.plan.check(provider)
        found = [*missing_prerequisites(lambda: provider), *problems]
        found += [problem for file in files for problem in output_problems(file, self._root)]
        if found:
            raise Unprepared(listed(found))
        return plan

    @contextmanager
    def recorded(self, provider: ClusterProvider, file: Path | None = None) -> Iterator[Cache]:
        """Record what runs within the context; if it ends early, say where the finished repetitions are.

        The provider is closed at the end.

        Parameters
        ----------
        provider : ClusterProvider
        file : Path, optional
            The results file, if one is asked for.
        """
        for said in killed_run_notices(runs_folder(self._root)):
            tell(said)
        try:
            folder = self._record.open(provider)
            yield Cache(folder, self._options.attempts, self._measurements)
        except (KeyboardInterrupt, TestbedError, CaricoError) as error:
            self._line.clear()
            self._end_early(file, isinstance(error, KeyboardInterrupt))
            raise
        finally:
            self._line.clear()
            provider.close()

    def complete(self, file: Path | None = None) -> Ending:
        """Write the results, and close the record; see `end_run`."""
        return end_run(self._record, "complete", file, datetime.now(UTC))

    def show(self, text: str, phase: str | None = None) -> None:
        """Show a line of progress, unless the user wants none; see `ProgressLine.show`."""
        if not self._options.quiet:
            self._line.show(text, phase)

    def show_pass(self, one: Pass, progress: Progress) -> None:
        """Show the progress of a pass."""
        self.show(self._pace.describe(one, progress), phase_of(progress))

    def clear(self) -> None:
        """Remove the line of progress, so that something else can be printed."""
        self._line.clear()

    def _end_early(self, file: Path | None, interrupted: bool) -> None:
        finished, asked_for = len(self._record.folder.log), len(self.plan.passes())
        said = f"interrupted after {finished} of {asked_for} runs"
        state: RunState = "interrupted" if interrupted else "failed"
        try:
            ending = end_run(self._record, state, file, datetime.now(UTC))
        except ResultsError as error:  # only told: the error that ended the run is raised
            tell(f"{said}; {error}")
            return
        if ending.file is not None:
            tell(f"{said}; they are in {ending.file}")
        elif interrupted:
            tell(said)


def tell(text: str) -> None:
    """Print a message to standard error, without what is not printable: it may quote a file."""
    print(f"carico-testbed: {printable(text, lines=True)}", file=sys.stderr)
