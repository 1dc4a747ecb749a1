"""Reads the journal: shows the decisions on a pod as tables, and makes decisions again. Writes nothing.

A line that cannot be read (cut short by a crash, or damaged) is reported with its number, and the others are read.
"""

from __future__ import annotations

import os
import re
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from carico.demand.decision import TOO_OLD
from carico.errors import InvalidInput, InvalidJournal
from carico.extender.journal import Candidate, Cost, Entry, demand_kind_of, kind_of
from carico.printable import printable, shortened
from carico.scheduling.plugin import CaricoPlugin

_BAD_SHOWN = 3
SHOWN = 10
"""Candidates of a decision that `explain` shows by default."""
LATEST = 20
"""The most decisions that `latest` returns."""
_SEARCHED = 64 << 20
_BLOCK = 1 << 18
_POD = re.compile(r"([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/)?[A-Za-z0-9]([-.A-Za-z0-9]{0,251}[A-Za-z0-9])?")
_NODE = 31
"""The width of the column of nodes if their names are short and the terminal is not."""


@dataclass(frozen=True)
class BadLine:
    """A line that is not an entry."""

    file: Path
    number: int
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}: skipped: {self.why}"


def files_of(journal: Path) -> list[Path]:
    """Return the existing files of a journal, the oldest first.

    Raises
    ------
    InvalidJournal
        If there are none.
    """
    aside = sorted(
        (int(file.suffix[1:]), file) for file in journal.parent.glob(f"{journal.name}.*") if file.suffix[1:].isdecimal()
    )
    files = [file for _, file in reversed(aside)] + [journal] * journal.exists()
    if not files:
        raise InvalidJournal(f"there is no journal {journal}; name the file that the extender's configuration names")
    return files


def read_entries(journal: Path) -> Iterator[tuple[str, Entry | BadLine]]:
    """Yield the content of each line with its place, ``FILE:NUMBER``, the oldest line first.

    Raises
    ------
    InvalidJournal
        If a file cannot be read.
    """
    decoder = msgspec.json.Decoder(Entry)
    for file in files_of(journal):
        try:
            with file.open("rb") as lines:
                for number, line in enumerate(lines, start=1):
                    try:
                        yield f"{file}:{number}", decoder.decode(line)
                    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                        yield f"{file}:{number}", BadLine(file, number, str(error))
        except OSError as error:
            raise InvalidJournal(f"cannot read the journal {file}: {error.strerror}") from error


def entries_of(journal: Path, say: Callable[[str], None]) -> Iterator[tuple[str, Entry]]:
    """Yield only the entries of `read_entries`, and report the other lines: the first few, and their number.

    Raises
    ------
    InvalidJournal
        If a file cannot be read, or there is no entry at all.
    """
    good = bad = 0
    for where, item in read_entries(journal):
        if isinstance(item, Entry):
            good += 1
            yield where, item
        else:
            bad += 1
            if bad <= _BAD_SHOWN:
                say(f"{item}")
    if bad > _BAD_SHOWN:
        say(f"{bad} lines of {good + bad} are not decisions; the first {_BAD_SHOWN} are above")
    if not good:
        what = f"{bad} lines, none of which is a decision" if bad else "nothing: no decision was made yet"
        raise InvalidJournal(f"{journal} holds {what}; name the file that the extender's configuration names")


def latest(journal: Path, pod: str) -> list[Entry]:
    """Return the last decisions on a pod, the oldest first, as far as they are in the last lines of the journal.

    Reading takes little memory, and less than a second, whatever the journal holds: at most `LATEST` decisions are
    returned, and the last `_SEARCHED` bytes of the journal's newest files are searched.

    Parameters
    ----------
    journal : Path
    pod : str
        NAME, NAMESPACE/NAME or the UID.

    Raises
    ------
    InvalidInput
        If no pod has such a name.
    InvalidJournal
        If a file cannot be read.
    """
    if not _POD.fullmatch(pod):
        raise InvalidInput(f"a pod is given as NAME, NAMESPACE/NAME or its UID, got {pod!r:.100}")
    decoder = msgspec.json.Decoder(Entry)
    quoted = f'"{pod.rpartition("/")[2]}"'.encode()
    found: list[Entry] = []
    for line in _backwards(journal) if journal.exists() else ():  # there is none before the first decision
        if quoted in line:
            with suppress(msgspec.MsgspecError, ValueError, RecursionError):  # a line that is no decision
                entry = decoder.decode(line)
                if concerns(entry, pod):
                    found.append(entry)
        if len(found) == LATEST:
            break
    return found[::-1]


def _backwards(journal: Path) -> Iterator[bytes]:
    """Yield the last lines of a journal, the newest first."""
    left = _SEARCHED
    try:
        for file in reversed(files_of(journal)):
            with file.open("rb") as stream:
                at, rest = stream.seek(0, os.SEEK_END), b""
                while at > 0 and left > 0:
                    size = min(at, left, _BLOCK)
                    at, left = at - size, left - size
                    stream.seek(at)
                    rest, *lines = (stream.read(size) + rest).split(b"\n")
                    yield from reversed(lines)
                if at == 0:
                    yield rest
            if left <= 0:
                return
    except OSError as error:
        raise InvalidJournal(f"cannot read the journal {journal}: {error.strerror}") from error


def concerns(entry: Entry, pod: str) -> bool:
    """Whether a decision is about a pod, given as NAME, NAMESPACE/NAME or its UID."""
    return pod in (entry.pod.name, f"{entry.pod.namespace}/{entry.pod.name}", entry.pod.uid)


def explain(entry: Entry, width: int, show_all: bool = False) -> str:
    """Return a decision as a table.

    Parameters
    ----------
    entry : Entry
    width : int
        How many columns there are: sentences are wrapped, and names of nodes cut in the middle.
    show_all : bool, optional
        Whether all nodes of the journal are shown, and not only the best `SHOWN`.
    """
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(entry.at)) + f".{int(entry.at % 1 * 1000):03d}Z"
    chosen = f"→ {printable(entry.choice)}" if entry.choice else "→ no node"
    lines = [*_wrapped(f"{at}  {entry.pod.namespace}/{entry.pod.name}  {chosen}", width), f"  uid {entry.pod.uid}"]
    if entry.cost is not None:
        return "\n".join([*lines, *_explain_demand(entry, entry.cost, width, show_all)])
    ranked = sorted(entry.candidates, key=lambda c: (c.node != entry.choice, -_score(c)))
    shown = ranked if show_all else ranked[:SHOWN]
    rows = [
        [
            candidate.node,
            _number(candidate.pod_capacity, 2),
            str(candidate.reserved),
            _number(candidate.score, 2),
            _number(candidate.age_s, 1),
            _word(candidate, entry),
        ]
        for candidate in shown
    ]
    if shown:
        lines += _table(["node", " capacity", " reserved", "    free", "  age s", "verdict"], rows, width)
    others = Counter(entry.omitted)
    others.update(map(kind_of, ranked[len(shown) :]))
    lines += [f"  {count:>6} more: {printable(kind)}" for kind, count in sorted(others.items())]
    return "\n".join(lines)


def decide_again(entry: Entry) -> str:
    """Make a decision again from its recorded inputs; return the difference, or an empty text if there is none.

    The candidates that an entry omits had less room than those that it holds, so they change nothing.
    """
    if entry.cost is not None:
        return _compare_demand(entry)
    plugin = CaricoPlugin(**({} if entry.stale_after_s is None else {"stale_after_s": entry.stale_after_s}))
    try:
        for candidate in entry.candidates:
            if candidate.pod_capacity is not None:
                plugin.report(candidate.node, candidate.pod_capacity, at=-(candidate.age_s or 0.0))
            for number in range(candidate.reserved):
                plugin.reserve(f"{candidate.node}/{number}", candidate.node)
    except InvalidInput as error:
        return f"cannot be decided again: {error}"
    decision = plugin.filter([candidate.node for candidate in entry.candidates], now=0.0)
    if decision.best != entry.choice:
        return f"{_node(entry.choice)} was chosen, {_node(decision.best)} would be"
    for candidate, verdict in zip(entry.candidates, decision.verdicts, strict=True):
        if candidate.refused != verdict.reason:
            return f"{printable(candidate.node)} was {_verdict(candidate.refused)}, would be {_verdict(verdict.reason)}"
    return ""


def _explain_demand(entry: Entry, cost: Cost, width: int, show_all: bool) -> list[str]:
    """Return the lines of a decision of the variant `demand`."""
    stale_after_s = _stale_after_s(entry)
    kinds = {candidate.node: demand_kind_of(candidate, stale_after_s) for candidate in entry.candidates}
    # What a node offered long ago says little about it.
    ranked = sorted(
        entry.candidates,
        key=lambda c: (c.node != entry.choice, bool(c.refused), kinds[c.node] == TOO_OLD, -_cores_left(c)),
    )
    shown = ranked if show_all else ranked[:SHOWN]
    demanded = (
        f"  {printable(cost.workload)}: a pod demands {cost.cores.mean:.2f} ± {cost.cores.doubt:.2f} cores, "
        f"{cost.gib.mean:.2f} ± {cost.gib.doubt:.2f} GiB"
    )
    if cost.reads:
        demanded += f", {cost.reads.mean:.2f} ± {cost.reads.doubt:.2f} reads at a time"
    rows = []
    for candidate in shown:
        room = candidate.room
        numbers = (None,) * 3 if room is None else (room.cores, room.gib, room.needs_gib)
        verdict = "chosen" if candidate.node == entry.choice else kinds[candidate.node]
        rows.append(
            [candidate.node, *(_number(value, 2) for value in numbers), _number(candidate.age_s, 1), printable(verdict)]
        )
    others = Counter(entry.omitted)
    others.update(kinds[candidate.node] for candidate in ranked[len(shown) :])
    return [
        *_wrapped(demanded, width),
        *_waits(entry, ranked, width),
        *_table(["node", " cores left", "  GiB left", "  needed", "  age s", "verdict"], rows, width),
        *(f"  {count:>6} more: {printable(kind)}" for kind, count in sorted(others.items())),
    ]


def _waits(entry: Entry, ranked: Sequence[Candidate], width: int) -> list[str]:
    """Return why a pod waits, by the node that comes closest to having room."""
    if entry.choice is not None or not ranked:
        return []
    closest = ranked[0]
    return _wrapped(f"  waits: {printable(closest.node)} comes closest: {printable(closest.refused)}", width)


def _wrapped(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, width, subsequent_indent="    ", break_on_hyphens=False)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return rows as lines: a node, numbers right below the words of the header, and a verdict.

    Verdicts are on lines of their own where names of nodes would have to be cut for them.
    """
    numbers = header[1:-1]
    of_numbers = sum(map(len, numbers))
    longest = max(len(row[0]) for row in [header, *rows])
    of_verdicts = max(len(row[-1]) for row in [header, *rows])
    room = width - of_numbers - len("  " + " ")
    beside = room - len("  ") - of_verdicts
    of_nodes = min(max(longest, _NODE), beside) if longest <= beside else min(longest, room)
    lines = []
    for node, *cells, verdict in [header, *rows]:
        line = f"  {shortened(node, of_nodes):<{of_nodes + 1}}"
        line += "".join(f"{cell:>{len(word)}}" for cell, word in zip(cells, numbers, strict=True))
        lines += [f"{line}  {verdict}".rstrip()] if longest <= beside else [line, f"    {verdict}"]
    return lines


def _stale_after_s(entry: Entry) -> float:
    return float("inf") if entry.stale_after_s is None else entry.stale_after_s


def _cores_left(candidate: Candidate) -> float:
    return float("-inf") if candidate.room is None else candidate.room.cores


def _compare_demand(entry: Entry) -> str:
    """Make a decision of the variant `demand` again: the node with the most room of those that have enough."""
    stale_after_s = _stale_after_s(entry)
    best: Candidate | None = None
    for candidate in entry.candidates:
        fits = candidate.age_s is not None and candidate.age_s <= stale_after_s and _has_room(candidate)
        if fits != (not candidate.refused):
            was, would = ("refused", "accepted") if fits else ("accepted", "refused")
            return f"{printable(candidate.node)} was {was}, would be {would}"
        if fits and (best is None or _cores_left(candidate) > _cores_left(best)):
            best = candidate
    if (best.node if best else None) != entry.choice:
        return f"{_node(entry.choice)} was chosen, {_node(best.node if best else None)} would be"
    return ""


def _has_room(candidate: Candidate) -> bool:
    room = candidate.room
    if room is None:
        return candidate.score is not None and candidate.score >= 1
    return room.idle or (room.cores > 0 and room.gib >= room.needs_gib and (room.reads is None or room.reads >= 0))


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _word(candidate: Candidate, entry: Entry) -> str:
    if candidate.node == entry.choice:
        return "chosen"
    short = {"no capacity reported yet": "unknown", "last report too old": "too old", "capacity too small": "full"}
    return short.get(kind_of(candidate), "")


def _score(candidate: Candidate) -> float:
    return float("-inf") if candidate.score is None else candidate.score


def _verdict(reason: str) -> str:
    return f"refused ({printable(reason)})" if reason else "accepted"


def _node(name: str | None) -> str:
    return "no node" if name is None else printable(name)
