"""What the page says: gate and verdicts first, then every scenario with its figures, the paper, how it was measured."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from markupsafe import Markup

from testbed.comparison import LEAST
from testbed.comparison.aa import aa_rows
from testbed.comparison.difference import Difference
from testbed.comparison.gate import LEVEL as CERTAIN
from testbed.comparison.measured import measured
from testbed.comparison.runs import Row as ComparedRow
from testbed.comparison.runs import paired, rows_of
from testbed.comparison.verdicts import MARGIN
from testbed.measurement.completion_times import why_incomplete
from testbed.measurement.metrics import METRICS
from testbed.report.aa import aa_sentence
from testbed.report.claims import counts
from testbed.report.comparison import change
from testbed.report.groups import TOTALS_NOTE, by_scheduler
from testbed.report.judgements import Judged, in_hindsight, judged_rows
from testbed.report.kept_gate import compared
from testbed.report.numbers import comparisons, counted, figure
from testbed.report.page.again import command_for
from testbed.report.page.drawing import Scale, effect_bar, number
from testbed.report.page.figure import Detail, Figure, csv_link
from testbed.report.page.figures import figures_of
from testbed.report.tables import stolen_note
from testbed.results.gate_file import GateFile, JudgedFigure
from testbed.results.outcomes import Outcome
from testbed.results.reading import Reading
from testbed.results.run import Run

COLORS = 8
"""Colours of the stylesheet; with more schedulers they return."""
TOLD = 12
"""The most messages of a kind."""
SYMBOLS = {"ok": "=", "regressed": "▲", "improved": "▼", "inconclusive": "?", "incomparable": "≠"}
"""Beside each verdict, so that its colour is not needed; the triangles say where a time went."""


@dataclass(frozen=True)
class Line:
    """A line of a table of verdicts."""

    name: str
    color: str
    figures: Sequence[str]
    effect: str
    bar: Markup | None
    verdict: str
    symbol: str


@dataclass(frozen=True)
class Block:
    """A table of verdicts below one heading."""

    title: str
    anchor: str
    sentence: str
    lines: Sequence[Line]


@dataclass(frozen=True)
class Table:
    """All verdicts that were corrected together."""

    title: str
    header: Sequence[str]
    blocks: Sequence[Block]
    note: str


@dataclass(frozen=True)
class GateSection:
    """What a gate has said of a run."""

    title: str
    passed: bool
    line: str
    failures: Sequence[str]
    notes: Sequence[str]
    table: Table
    """Empty if nothing was judged."""
    header: Sequence[str]
    data: str
    """Its numbers, to download."""


@dataclass(frozen=True)
class PageSection:
    """A scenario with its figures."""

    anchor: str
    title: str
    run: str
    """The run, if the page has several."""
    seeds: str
    command: str | None
    figures: Sequence[Figure]


@dataclass(frozen=True)
class Paper:
    """What a test measured, beside the paper."""

    title: str
    verdict: str
    reason: str
    rows: Sequence[tuple[str, str, str, str, str, str]]
    """Quantity, paper, ours, ratio, extremes, note."""


@dataclass(frozen=True)
class Origin:
    """How a run was measured."""

    name: str
    command: str
    facts: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Page:
    """The whole page."""

    title: str
    subtitle: str
    problems: Sequence[str]
    gates: Sequence[GateSection]
    tables: Sequence[Table]
    hindsight: Sequence[Line]
    sections: Sequence[PageSection]
    counts: Sequence[str]
    paper: Sequence[Paper]
    origins: Sequence[Origin]
    left_out: str


def page_of(readings: Sequence[Reading], reference: str | None, detail: Detail, left_out: str) -> Page:
    """Put together what the page says about some runs.

    Parameters
    ----------
    readings : sequence of Reading
        The first is what the others are compared with.
    reference : str or None
        The scheduler with which the others of a run are compared.
    detail : Detail
    left_out : str
        What a smaller page lacks.
    """
    readings = [replace(reading, repetitions=by_scheduler(reading.repetitions)) for reading in readings]
    schedulers = dict.fromkeys(one.scheduler for reading in readings for one in reading.repetitions)
    colors = {name: f"c{place % COLORS}" for place, name in enumerate(schedulers)}
    several = len(readings) > 1
    rows = [judged_rows(reading.repetitions, reference) for reading in readings]
    sections: list[PageSection] = []
    anchors: dict[int, str] = {}
    for reading, mine in zip(readings, rows, strict=True):
        for section, of_section in groupby(mine, lambda row: row.section):
            anchor = f"s{len(sections) + 1}"
            anchors[id(section)] = anchor
            seeds = sorted({one.seed for runs in section.runs.values() for one in runs})
            sections.append(
                PageSection(
                    anchor,
                    section.title,
                    reading.name if several else "",
                    _seeds(seeds),
                    command_for(section, reading.run),
                    figures_of(section, list(of_section), colors, detail, anchor),
                )
            )
    tables = [_between(readings[0], other, colors) for other in readings[1:]]
    tables += [
        _verdicts(mine, colors, anchors, reading.name if several else "")
        for reading, mine in zip(readings, rows, strict=True)
        if mine
    ]
    tables += [
        _aa_check(reading, colors, several)
        for reading in readings
        if any(one.of_aa_check for one in reading.repetitions)
    ]
    outcomes = [one for reading in readings for one in reading.outcomes]
    title, subtitle = _title(readings, list(schedulers))
    return Page(
        title,
        subtitle,
        [problem for reading in readings for problem in _problems(reading, several)],
        [
            _gate(gate, _gate_title(gate, reading.name if several else ""), colors)
            for reading in readings
            for gate in reading.gates
        ],
        tables,
        [line for mine in rows for line in _hindsight(mine, colors)],
        sections,
        counts(outcomes) if outcomes else [],
        [_paper(one) for one in outcomes if one.rows or one.statement.kind == "claim"],
        [_origin(reading) for reading in readings],
        left_out,
    )


def _title(readings: Sequence[Reading], schedulers: Sequence[str]) -> tuple[str, str]:
    scenarios = list(dict.fromkeys(one.scenario for reading in readings for one in reading.repetitions))
    about = ", ".join(scenarios[:3]) + (f" and {len(scenarios) - 3} more" if len(scenarios) > 3 else "")
    number_of = sum(len(reading.repetitions) for reading in readings)
    said = f"{counted(len(schedulers), 'scheduler')}, {counted(number_of, 'repetition')}"
    if len(readings) > 1:
        return (
            f"{about or 'Runs'}: {len(readings)} runs",
            f"{said}; {readings[0].name} is what the others are compared with",
        )
    name, run = readings[0].name, readings[0].run
    if run is None:
        return f"{about}: {name}", said
    where = f"on the provider {run.provider}, {run.started.replace('T', ' ').replace('Z', ' UTC')}"
    return about or f"Run {name}", f"{said} {where}; run {name}"


def _verdicts(rows: Sequence[Judged], colors: dict[str, str], anchors: dict[int, str], run: str) -> Table:
    scale = _scale([row.difference for row in rows if row.difference is not None])
    blocks = []
    for title, each in groupby(rows, lambda row: row.title):
        mine = list(each)
        lines = [
            Line(
                row.scheduler,
                colors[row.scheduler],
                [str(row.n), _jct(row), _with_interval(row.pct_s, row.pct_interval_s)],
                "reference" if row.is_reference else _effect(row.difference),
                _bar(row.difference, scale, colors[row.scheduler], row.scheduler),
                row.verdict or "",
                SYMBOLS.get(row.verdict or "", ""),
            )
            for row in mine
        ]
        blocks.append(Block(title, anchors[id(mine[0].section)], summary_sentence(mine), lines))
    compared = sum(row.difference is not None for row in rows)
    note = (
        "Medians over n repetitions, of PCT those of its mean; in brackets 95 % intervals, of times the extremes below "
        "six repetitions."
    )
    if compared:
        note += (
            f" The ratio is JCT over the reference's, with its 95 % interval; right of the line takes longer. Verdicts "
            f"are corrected for {comparisons(compared)} of this table (Holm, 5 %). ok: within "
            f"{100 * MARGIN:g} %; inconclusive: the repetitions cannot tell, and below {LEAST} they never can."
        )
    if any(row.group.total for row in rows):
        note += f" {TOTALS_NOTE}"
    note += "".join(f" {part}" for part in stolen_note([one for row in rows for one in row.group.runs[row.scheduler]]))
    title = "Verdicts" + (f" within {run}" if run else "")
    return Table(title, ("scheduler", "n", "JCT, s", "PCT, s", "JCT / reference", "", "verdict"), blocks, note)


def summary_sentence(rows: Sequence[Judged]) -> str:
    """Return what the verdicts on one job say, as a sentence; empty if there is nothing to compare."""
    reference = next((row.scheduler for row in rows if row.is_reference), None)
    judged = [row for row in rows if row.verdict is not None]
    if reference is None or not judged:
        return ""
    told = []
    for verdict, words in (
        ("regressed", "takes longer under"),
        ("improved", "takes less under"),
        ("ok", "takes as long under"),
        ("inconclusive", "cannot be told apart under"),
    ):
        if mine := [row for row in judged if row.verdict == verdict]:
            told.append(f"{words} {', '.join(f'{row.scheduler}{_by_how_much(row)}' for row in mine)}")
    subject = "the mean job" if rows[0].group.total else "the job"
    return f"Compared with {reference}, {subject} {'; it '.join(told)}."


def _by_how_much(row: Judged) -> str:
    if row.difference is not None and _is_ratio(row.difference):
        return f" ({row.difference.effect:.2f} ×)"
    return " (not completed)" if row.lacking else ""


def _hindsight(rows: Sequence[Judged], colors: dict[str, str]) -> list[Line]:
    found = []
    for _, each in groupby(rows, lambda row: (id(row.section), row.group.job)):
        row = next(iter(each))
        found += [(row, name, one) for name, one in in_hindsight(row.group).items()]
    scale = Scale(
        *_limits([value for _, _, one in found for value in (one.ratio, one.low, one.high)]), 8.0, 152.0, log=True
    )
    return [
        Line(
            name,
            colors[name],
            [row.title, one.best],
            f"{one.ratio:.2f}" + (f" [{one.low:.2f}, {one.high:.2f}]" if one.n >= LEAST else f" (n = {one.n})"),
            effect_bar(one.ratio, one.low, one.high, scale, colors[name], f"{name}: {one}"),
            "",
            "",
        )
        for row, name, one in found
    ]


def _between(reference: Reading, candidate: Reading, colors: dict[str, str]) -> Table:
    """What changed from one run to another."""
    pairing = paired(*(measured(reading.repetitions) for reading in (reference, candidate)))
    rows = rows_of(pairing)
    scale = _scale([row.compared.difference for row in rows if row.compared is not None])
    blocks = [
        Block(title, "", "", [_changed(row, scale, colors) for row in mine])
        for title, mine in groupby(rows, lambda row: row.title)
    ]
    only = [
        f" Only in {name}: {'; '.join(titles)}."
        for name, titles in ((reference.name, pairing.only_reference), (candidate.name, pairing.only_candidate))
        if titles and pairing.pairs
    ]
    count = sum(row.compared is not None for row in rows)
    note = (
        f"Means over the repetitions; the effect is {candidate.name} / {reference.name}, or (+, -) their difference, "
        f"with its 95 % interval. Verdicts are corrected for {comparisons(count)} of this table "
        f"(Holm, 5 %)."
        if count
        else f"{reference.name} and {candidate.name} have no scenario, scheduler and settings in common."
    )
    note += "".join(only)
    header = ("figure", "before", "after", "effect", "", "verdict")
    return Table(f"From {reference.name} to {candidate.name}", header, blocks, note)


def _aa_check(reading: Reading, colors: dict[str, str], several: bool) -> Table:
    """What the comparison says of schedulers that are the same."""
    rows = aa_rows(reading.repetitions)
    scale = _scale([row.compared.difference for row in rows if row.compared is not None])
    blocks = [
        Block(title, "", "", [_changed(row, scale, colors) for row in mine])
        for title, mine in groupby(rows, lambda row: row.title)
    ]
    title = "A/A check" + (f" within {reading.name}" if several else "")
    header = ("figure", "once", "again", "again / once", "", "verdict")
    note = f"{aa_sentence(rows)}. Schedulers are compared with themselves, so that whatever differs is noise."
    return Table(title, header, blocks, note)


def _gate_title(gate: GateFile, run: str) -> str:
    """Return which test or run a gate is of; a session's in a page of one run is simply the gate."""
    of = ", ".join(name for name in (gate.test, run) if name)
    return f"Gate of {of}" if of else "Gate"


def _gate(gate: GateFile, title: str, colors: dict[str, str]) -> GateSection:
    """What a gate has said, with everything that it judged."""
    scale = _scale([compared(one).difference for one in gate.judgements])
    of_title: dict[tuple[str, str], list[Line]] = {}
    for one in gate.judgements:  # condition by condition
        of_title.setdefault((one.title, one.against), []).append(_judgement(one, scale, colors))
    blocks = [
        Block(what, "", f"Judged by {against}." if against else "", lines)
        for (what, against), lines in of_title.items()
    ]
    note = (
        "Means over the repetitions; the change with its 95 % interval. regressed: it is certain that the figure is "
        f"worse than allowed, at {100 * CERTAIN:g} % for the whole gate (Holm); ok: the whole interval is within what "
        "is allowed; inconclusive: the repetitions cannot tell, which passes."
    )
    if gate.baseline is not None:
        note += f" The baseline: {gate.baseline.path} (SHA-256 {gate.baseline.sha256[:12]}…)."
    before = "reference" if gate.baseline is None else "baseline"
    header = ("title", "figure", "condition", before, "now", "effect", "is_ratio", "low", "high", "verdict")
    rows = [
        (
            one.title,
            compared(one).figure,
            one.condition,
            one.reference,
            one.candidate,
            one.effect,
            one.is_ratio,
            one.low,
            one.high,
            one.outcome,
        )
        for one in gate.judgements
    ]
    return GateSection(
        title,
        gate.passed,
        gate.line,
        gate.failures,
        gate.notes,
        Table(title, ("figure", before, "now", "allowed", "change", "", "verdict"), blocks, note),
        header,
        csv_link(header, rows),
    )


def _judgement(one: JudgedFigure, scale: Scale, colors: dict[str, str]) -> Line:
    """The line of a comparison, with the change in the words of the limit."""
    found = compared(one)
    line = _changed(ComparedRow(found.title, one.outcome, found), scale, colors, one.unit)
    told = f"{found.lacking} not measured" if found.lacking else ""
    allowed = one.condition.rpartition(":")[2]
    by_share = allowed.endswith("%")
    if not found.difference.relative or _is_ratio(found.difference):
        told = change(found.difference, one.unit, None if by_share else found.reference)
    allowed = allowed if by_share else f"{allowed} {one.unit}".rstrip()
    return replace(line, figures=(*line.figures, allowed), effect=told)


def _changed(row: ComparedRow, scale: Scale, colors: dict[str, str], unit: str | None = None) -> Line:
    found = row.compared
    symbol = SYMBOLS[row.verdict]
    if found is None:
        return Line(row.reason, "", ("", ""), "", None, row.verdict, symbol)
    if unit is None:
        unit = METRICS[found.figure.metric].unit
    one = found.difference
    effect = _effect(one)
    if not one.relative:
        effect = f"{one.effect:+.3g}" + (f" [{one.low:+.3g}, {one.high:+.3g}]" if one.enough else "")
    color = colors.get(row.title.rpartition(" · ")[2], "c0")
    figures = tuple(figure(value, unit if unit == "s" else "") for value in (found.reference, found.candidate))
    bar = _bar(one, scale, color, str(found.figure)) if one.relative else None
    return Line(str(found.figure), "", figures, effect, bar, row.verdict, symbol)


def _jct(row: Judged) -> str:
    if row.lacking:
        return f"{row.lacking} of {row.n} did not complete"
    return _with_interval(row.jct_s, row.interval_s)


def _with_interval(value: float | None, interval: tuple[float, float] | None) -> str:
    if value is None:
        return "–"
    text = number(value)
    return text if interval is None else f"{text} [{number(interval[0])}, {number(interval[1])}]"


def _is_ratio(one: Difference | None) -> bool:
    return one is not None and one.relative and 0.0 < one.effect < float("inf")


def _effect(one: Difference | None) -> str:
    if one is None or not _is_ratio(one):
        return ""
    return f"{one.effect:.2f}" + (f" [{one.low:.2f}, {one.high:.2f}]" if one.enough else "")


def _bar(one: Difference | None, scale: Scale, color: str, name: str) -> Markup | None:
    if one is None or not _is_ratio(one):
        return None
    return effect_bar(one.effect, one.low, one.high, scale, color, f"{name}: {_effect(one)} times the reference")


def _scale(differences: Sequence[Difference]) -> Scale:
    """The axis of ratios that all lines of a table share."""
    ratios = [value for one in differences if _is_ratio(one) for value in (one.effect, one.low, one.high)]
    return Scale(*_limits(ratios), 8.0, 152.0, log=True)


def _limits(ratios: Sequence[float]) -> tuple[float, float]:
    within = [value for value in ratios if 0.1 <= value <= 10.0] or [1.0]
    return min(*within, 0.9) / 1.03, max(*within, 1.1) * 1.03


def _problems(reading: Reading, several: bool) -> list[str]:
    """What a reader must know before believing anything: what is missing, and what did not complete."""
    told = [f"Left out: {problem}" for problem in reading.problems]
    run = reading.run
    if run is not None and run.state != "complete":
        state = {"running": "is still going on", "interrupted": "was interrupted", "failed": "failed"}[run.state]
        told.append(
            f"The run {state}; what it had finished is shown: {counted(len(reading.repetitions), 'repetition')}."
        )
    failures = [
        f"{job} did not complete under {one.scheduler} with seed {one.seed}: {why_incomplete(one, job)}"
        for one in reading.repetitions
        for job in one.measured_jobs
        if one.job_completion_time_s.get(job) is None
    ]
    told += failures[:TOLD]
    if len(failures) > TOLD:
        told.append(f"{len(failures) - TOLD} more jobs did not complete.")
    lost: Counter[tuple[str, str]] = Counter()
    names: dict[tuple[str, str], list[str]] = {}
    for one in reading.repetitions:
        for pod in one.pods:
            if pod.job in one.measured_jobs and pod.outcome not in ("succeeded", "unfinished"):
                key = (pod.outcome.replace("_", " "), one.scheduler)
                lost[key] += 1
                names.setdefault(key, []).append(f"{pod.name} on {pod.node} (seed {one.seed})")
    for (outcome, scheduler), count in lost.items():
        some = ", ".join(names[outcome, scheduler][:3]) + ", ..." * (count > 3)
        told.append(f"{counted(count, 'pod')} {outcome} under {scheduler}: {some}")
    return [f"{reading.name}: {one}" for one in told] if several else told


def _paper(outcome: Outcome) -> Paper:
    module, _, test = outcome.test.partition("::")
    statement = outcome.statement
    title = f"{statement.source}: {statement.text}" if statement.text else test
    verdict = f"{outcome.verdict or ''} {outcome.share}".strip()
    rows = []
    for row in outcome.rows:
        low, high = min(row.values), max(row.values)
        rows.append(
            (
                row.what,
                "–" if row.thesis is None else figure(row.thesis, row.unit),
                figure(row.ours, row.unit),
                "–" if row.thesis in (None, 0) else f"{row.ours / row.thesis:.2f}",
                "" if low == high else f"{figure(low)} to {figure(high)}",
                row.note,
            )
        )
    where = f" ({test})" if statement.text else f" ({module})"
    return Paper(title + where, verdict, outcome.reason, rows)


def _origin(reading: Reading) -> Origin:
    run = reading.run
    if run is None:
        return Origin(reading.name, "", [("repetitions", str(len(reading.repetitions)))])
    return Origin(reading.name, shlex.join(run.command), _facts(run))


def _facts(run: Run) -> list[tuple[str, str]]:
    commit = "none" if run.commit is None else run.commit.id[:12] + " with changes" * run.commit.dirty
    settings = ", ".join(f"{name}={value}" for name, value in run.settings.items()) or "defaults"
    return [
        ("started", run.started),
        ("ended", run.ended or "–"),
        ("provider", run.provider + (f", Kubernetes {run.kubernetes_version}" if run.kubernetes_version else "")),
        ("settings", settings),
        ("commit", commit),
        ("machine", f"{run.machine.cpus} × {run.machine.cpu_model}, {run.machine.kernel}"),
        ("versions", ", ".join([f"Python {run.python}", *(f"{name} {text}" for name, text in run.packages.items())])),
    ]


def _seeds(seeds: Sequence[int]) -> str:
    if len(seeds) > 2 and seeds[-1] - seeds[0] == len(seeds) - 1:
        return f"seeds {seeds[0]} to {seeds[-1]}"
    return ("seed " if len(seeds) == 1 else "seeds ") + ", ".join(map(str, seeds))
