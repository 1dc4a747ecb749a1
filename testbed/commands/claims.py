"""``carico-testbed claims``: the table of a paper's claims, from sessions on one or several providers."""

from __future__ import annotations

import argparse
from pathlib import Path

from carico.commands.output import of_output, print_json, wants_json
from testbed.commands import HELP
from testbed.errors import UsageError
from testbed.report.as_json import claims_as_json
from testbed.report.claims import claims_table
from testbed.results.outcomes import Outcome
from testbed.results.outcomes_file import read_outcomes
from testbed.results.runs import LATEST, run_named


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    claims = commands.add_parser(
        "claims",
        help=HELP["claims"],
        description="Prints a Markdown table of the claims that tests judged (marker carico_claim): whether each held, "
        "with the paper's figure and the measured one. Sessions on several providers stand side by side; if several "
        "on one provider judged the same claim, the last one given counts.",
    )
    claims.add_argument(
        "run_names",
        metavar="RUN",
        nargs="*",
        default=[LATEST],
        help="a session of pytest: a name that 'carico-testbed runs' shows, the folder of a run, or 'latest' "
        "(default: latest)",
    )
    of_output(claims)
    claims.set_defaults(run=_claims)


def _claims(options: argparse.Namespace) -> int:
    found: dict[str, list[Outcome]] = {}
    runs = [run_named(name, Path.cwd()) for name in options.run_names]
    for run in runs:
        if not run.outcomes.exists():
            raise UsageError(
                f"run {run.id} has no outcomes of tests: only sessions of pytest that have ended have them"
            )
        found.setdefault(run.read().provider, []).extend(read_outcomes(run.outcomes))
    if not any(one.statement.kind == "claim" for outcomes in found.values() for one in outcomes):
        raise UsageError(f"no test of {', '.join(run.id for run in runs)} judged a claim (marker carico_claim)")
    if wants_json(options):
        print_json(claims_as_json(found))
    else:
        print("\n".join(claims_table(found)))
    return 0
