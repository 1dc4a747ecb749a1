"""The summary at the end of a pytest session: measurements, the verdict on the cluster tests, and the next command."""

from __future__ import annotations

import textwrap
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

import pytest

from testbed.plugin.claims import Claim
from testbed.plugin.options import Options
from testbed.plugin.state import State
from testbed.providers import SIMULATED

if TYPE_CHECKING:
    from testbed.results.schema import Results

WIDTH = 80
NEXT = {
    "smoke": "pytest -m cluster --carico-preset=ci",
    "ci": "pytest -m cluster --carico-preset=full",
    "full": "carico-testbed run --help",
}
"""The command to run after each preset."""


def summarise(reporter: pytest.TerminalReporter, state: State) -> None:
    """Write the summary; nothing for a session without cluster tests."""
    claims = state.claims.in_order(state.order)
    if claims or state.ended or state.complaint:
        reporter.ensure_newline()
        reporter.section("carico", sep="=", bold=True)
        reporter.write_line(f"carico: {state.options}")
        _write_tables(reporter, state, claims)
        if claims:
            _write_verdict(reporter, claims)
        if state.ended in ("interrupted", "failed"):
            reporter.write_line(f"{state.ended}: {_kept(state.results)}", yellow=True)
        if state.written is not None:
            reporter.write_line(f"results: {state.written}")
        if state.ended is not None:
            reporter.write_line(f"run: {state.run_path}")
        if state.complaint:
            reporter.write_line(state.complaint, red=True)
        for said in state.said:
            reporter.write_line(said)
        failed = any(claim.outcome == "failed" for claim in claims)
        reporter.write_line(f"next: {_next(state.options, failed)}")
    if state.elsewhere:
        count = sum(state.elsewhere.values())
        tests = "1 cluster test is" if count == 1 else f"{count} cluster tests are"
        others = " or ".join(f"--carico-provider={name}" for name in sorted(state.elsewhere))
        reporter.write_line(f"carico: {tests} for other providers; to run them: pytest -m cluster {others}")
    if state.left_out:
        tests = "1 cluster test was" if state.left_out == 1 else f"{state.left_out} cluster tests were"
        reporter.write_line(f"carico: {tests} left out; to run them: pytest -m cluster")


def _next(options: Options, failed: bool) -> str:
    command = "pytest -m cluster --lf" if failed else NEXT[options.preset.name]
    pytest_on_another = options.provider != SIMULATED and command.startswith("pytest")
    return f"{command} --carico-provider={options.provider}" if pytest_on_another else command


def _kept(results: Results | None) -> str:
    count = 0 if results is None else len(results.repetitions)
    if not count:
        return "no repetition was finished"
    return f"{count} finished repetition{'s are' if count != 1 else ' is'} kept, what was running is not"


def _write_tables(reporter: pytest.TerminalReporter, state: State, claims: list[Claim]) -> None:
    if state.results is None and not any(claim.rows for claim in claims):
        return  # the tables need packages that may be missing
    from testbed.report.tables import VERDICT_IS_GOOD, medians, paper_table

    for module, of_module in groupby((claim for claim in claims if claim.rows), _module):
        reporter.write_line("")
        reporter.write_line(module)
        for claim in of_module:
            for line in [f"  {_name(claim)}", *paper_table(claim.rows)]:
                reporter.write_line(line)
    if state.results is not None:
        for line in ["", *medians(state.results.repetitions)]:
            verdict = line.rpartition(" ")[2]
            good = VERDICT_IS_GOOD.get(verdict)
            reporter.write(line.removesuffix(verdict))
            reporter.write_line(verdict, green=good is True, red=good is False)


def _write_verdict(reporter: pytest.TerminalReporter, claims: list[Claim]) -> None:
    count = Counter(claim.outcome for claim in claims)
    hold = count["holds"]
    # Without a comparison with the paper there are no claims, only tests.
    noun = "claim" if any(row["thesis"] is not None for claim in claims for row in claim.rows) else "test"
    sentence = f"{hold} {noun}{'s' * (hold != 1)} hold{'s' * (hold == 1)}"
    sentence += f", {count['not reproduced']} NOT REPRODUCED, {count['failed']} failed"
    if count["not measured"]:
        sentence += f", {count['not measured']} NOT MEASURED"
    reporter.write_line("")
    # The line must not be green if a test failed or was not measured.
    unmeasured = count["not measured"]
    bad = bool(count["failed"]) or unmeasured == len(claims) > 0
    reporter.write_line(sentence, red=bad, yellow=not bad and unmeasured > 0, green=not bad and not unmeasured)
    for outcome in ("not reproduced", "not measured"):
        if count[outcome]:
            reporter.write_line(f"{outcome.upper()}: {count[outcome]}", yellow=True, bold=outcome == "not measured")
            for reason, alike in groupby((one for one in claims if one.outcome == outcome), lambda one: one.reason):
                for claim in alike:
                    reporter.write_line(f"  {_name(claim)}")
                for paragraph in reason.splitlines():
                    for line in textwrap.wrap(paragraph, WIDTH, initial_indent="    ", subsequent_indent="    "):
                        reporter.write_line(line)


def _module(claim: Claim) -> str:
    return claim.test.partition("::")[0]


def _name(claim: Claim) -> str:
    return claim.test.partition("::")[2]
