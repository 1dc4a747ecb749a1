"""A run that a command makes: checked first, recorded all the way, its progress on standard error."""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from carico.errors import CaricoError
from testbed.cluster_options import ClusterOptions, chosen
from testbed.errors import ResultsError, TestbedError, Unprepared
from testbed.experiment.cache import Cache
from testbed.experiment.plan import CheckedPlan, Pass, Plan
from testbed.experiment.preflight import listed, missing_prerequisites, unusable_places
from testbed.experiment.progress import describe, line_on_stderr
from testbed.experiment.provider import ClusterProvider, Progress
from testbed.requirements import Problem
from testbed.results import runs_folder
from testbed.results.ending import Ending, end_run
from testbed.results.record import Asked, RunRecord
from testbed.results.run import RunState
from testbed.results.run_id import new_run_id
from testbed.results.runs import left_overs


class RecordedRun:
    """One run of a command, in the folder where the command was started.

    Parameters
    ----------
    options : argparse.Namespace
        Those of `add_cluster_options`, `quiet`, and `arguments`: what was typed.
    plan : Plan
    """

    def __init__(self, options: argparse.Namespace, plan: Plan) -> None:
        self._options = options
        self._root = Path.cwd()
        self._line = line_on_stderr()
        self.id = new_run_id(datetime.now(UTC), secrets.token_hex(3))
        self.plan = plan
        self.cluster_options = ClusterOptions(
            self.id, diagnostics=runs_folder(self._root) / self.id / "diagnostics", say=tell, **chosen(vars(options))
        )
        command = ["carico-testbed", *options.arguments]
        asked = Asked(command, None, plan.repetitions, plan.seed, plan.settings, options.attempts)
        self._record = RunRecord(self._root, self.id, asked)

    def checked(
        self, provider: ClusterProvider, files: Sequence[Path | None] = (None,), problems: Sequence[Problem] = ()
    ) -> CheckedPlan:
        """Check everything that would fail later; nothing has been created then.

        Parameters
        ----------
        provider : ClusterProvider
        files : sequence of Path or None
            To be written in the end.
        problems : sequence of Problem
            What the command itself has found to be missing.

        Raises
        ------
        UsageError
            If the plan cannot be run.
        Unprepared
            If something is missing; the message lists all of it.
        """
        plan = self.plan.check(provider)
        found = [*missing_prerequisites(lambda: provider), *problems]
        found += [problem for file in files for problem in unusable_places(file, self._root)]
        if found:
            raise Unprepared(listed(found))
        return plan

    @contextmanager
    def recorded(self, provider: ClusterProvider, file: Path | None = None) -> Iterator[Cache]:
        """Record what is run within the context; if that ends early, keep what was finished and say where it is.

        The provider is closed in the end.

        Parameters
        ----------
        provider : ClusterProvider
        file : Path, optional
            The results file that was asked for.
        """
        for said in left_overs(runs_folder(self._root)):
            tell(said)
        try:
            folder = self._record.open(provider.name, provider.kubernetes_version())
            yield Cache(folder, self._options.attempts)
        except (KeyboardInterrupt, TestbedError, CaricoError) as error:
            self._line.clear()
            self._end_early(file, isinstance(error, KeyboardInterrupt))
            raise
        finally:
            self._line.clear()
            provider.close()

    def complete(self, file: Path | None = None) -> Ending:
        """Write the results file if one was asked for, and close the record; see `end_run`."""
        return end_run(self._record, "complete", file, datetime.now(UTC))

    def recovery(self) -> str:
        """Return the command that writes what was measured to a file."""
        return f"{self._record.folder.recovery()} --json FILE"

    def show(self, text: str) -> None:
        """Show a line of progress, unless the user wants none."""
        if not self._options.quiet:
            self._line.show(text)

    def show_pass(self, one: Pass, progress: Progress) -> None:
        """Show how far a pass is."""
        self.show(describe(one, progress))

    def clear(self) -> None:
        """Take the line of progress away, so that something else can be printed."""
        self._line.clear()

    def _end_early(self, file: Path | None, interrupted: bool) -> None:
        finished, asked_for = len(self._record.folder.log), len(self.plan.passes())
        said = f"interrupted after {finished} of {asked_for} runs"
        state: RunState = "interrupted" if interrupted else "failed"
        try:
            ending = end_run(self._record, state, file, datetime.now(UTC))
        except ResultsError as error:  # what went wrong first is what is raised
            tell(f"{said}; {error}")
            return
        if ending.file is not None:
            tell(f"{said}; they are in {ending.file}")
        elif finished:
            tell(f"{said}; to keep them: {self.recovery()}")
        elif interrupted:
            tell(said)


def tell(text: str) -> None:
    """Tell the user something that is no result."""
    print(f"carico-testbed: {text}", file=sys.stderr)
