"""Saves what a session measured as a baseline.

What the file had before is kept where tests were not run: nobody means to drop it who measures a part anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testbed.comparison import USUAL
from testbed.comparison.conditions import conditions
from testbed.plugin.gate import is_part_of, measured_by
from testbed.plugin.repetitions import named, too_few_in_baseline
from testbed.plugin.state import State
from testbed.report.numbers import wrapped

if TYPE_CHECKING:
    from testbed.comparison.baseline import Baseline


def save_baseline(config: pytest.Config, state: State, *, passed: bool) -> None:
    """Save what the session measured as a baseline, if one is wanted, unless a test failed.

    Raises
    ------
    ResultsError
        If it cannot be written, or an earlier one cannot be read.
    """
    file, only_new = state.options.save_baseline, state.options.only_new
    if file is None:
        return
    from testbed.comparison.baseline import baseline_of, extended, lacking, read_baseline, write_baseline
    from testbed.comparison.power import noisiest_of_baseline
    from testbed.measurement.metrics import EVERY
    from testbed.report.comparison import power_note

    found = measured_by(state, EVERY)  # so that the baseline serves any condition, markers' included
    if not passed or not found:
        state.messages.append(f"no baseline was saved to {file}: only a session that measures and passes makes one")
        return
    made = baseline_of(state.record.folder.read(), found)
    told, notes = f"{len(found)} written", list[str]()
    earlier = read_baseline(file) if file.exists() else None
    if earlier is not None and only_new:
        made, found = extended(earlier, made), lacking(earlier, found)
        if not found:
            state.messages.append(f"baseline: {file} lacks nothing, and is as it was")
            return
        told = f"{len(found)} added, {len(earlier.measured)} kept"
    elif earlier is not None:
        made, more, notes = _in_place_of(earlier, made, _not_run(config, state, earlier))
        told += more
    write_baseline(file, made)
    state.saved = file
    state.messages.append(f"baseline: {file} ({told})")
    state.messages += [f"  {one.title}" for one in found]
    state.messages += [line for said in notes for line in wrapped(said)]
    for said in too_few_in_baseline(made.measured, file):
        state.messages += wrapped(f"WARNING: {said}", indent="")
    least = noisiest_of_baseline(made.measured, conditions(state.options.fail_on or USUAL))
    for said in power_note(least, "with other seeds, a gate by this baseline finds"):
        state.messages += wrapped(said)


def _not_run(config: pytest.Config, state: State, earlier: Baseline) -> str:
    """Return why the session may not have measured all that a baseline has; empty if all tests were run."""
    skipped = [one.test for one in state.outcomes.in_order(state.order) if one.verdict == "not measured"]
    if skipped:
        return f"not all tests were run (skipped: {named(skipped)})"
    return "not all tests were run" if is_part_of(config, state, earlier) else ""


def _in_place_of(earlier: Baseline, later: Baseline, not_run: str) -> tuple[Baseline, str, list[str]]:
    """Return what takes the place of an earlier baseline, how much of that is kept or dropped, and sentences on it."""
    from testbed.comparison.baseline import lacking, renewed, replaced

    besides, here = lacking(later, earlier.measured), earlier.measured_on(later.made_by.provider)
    elsewhere, left = [one for one in besides if one not in here], [one for one in besides if one in here]
    of_all, notes = f"of {len(earlier.measured)} entries from {earlier.when}", list[str]()
    for old, differs in replaced(left, lacking(earlier, later.measured)):
        left.remove(old)
        notes.append(f"replaced, as it was measured with other settings: {old.title}: {', '.join(differs)}")
    kept = [*elsewhere, *left] if not_run else elsewhere
    if elsewhere:
        notes.append(
            f"kept, as measured on another provider than {later.made_by.provider}: {len(elsewhere)} {of_all}; to drop "
            f"them, delete the file first"
        )
    if not_run and left:
        notes.append(
            f"kept, as {not_run}: {len(left)} {of_all}; to drop what no test measures any more, run all tests, or "
            f"delete the file first"
        )
    gone = [] if not_run else [one.title for one in left]
    notes += [f"dropped, as no test measured it: {title}" for title in gone]
    counts = {"kept": len(kept), "dropped": len(gone)}
    told = "".join(f", {number} {what}" for what, number in counts.items() if number)
    return renewed(earlier, kept, later), told, notes
