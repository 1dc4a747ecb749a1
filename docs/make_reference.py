"""Writes the pages of the reference that come from the code: options, metrics, results files, CARICO's parameters.

`python docs/make_reference.py` writes them; with --check it writes nothing, and exits with 1 if one is not up to date.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from carico.cli import make_parser as carico_parser
from carico.variants import VARIANTS
from testbed.cli import make_parser as testbed_parser
from testbed.measurement.metrics import METRICS, statistics_of
from testbed.plugin.flags import FLAGS_ONLY, add_options
from testbed.results import gate_file, outcomes, outcomes_file, record, repetition_log, schema
from testbed.results.json_schema import FILES, schema_of

FOLDER = Path(__file__).parent / "reference"
_NOTE = "\n<!-- Written by docs/make_reference.py: change the code instead, and run it again. -->\n"
_MODULES = (schema, record, repetition_log, outcomes, outcomes_file, gate_file)


def main() -> int:
    """Write the pages, or compare them, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a page is not up to date")
    check = parser.parse_args().check
    stale = [name for name, text in pages().items() if _written(FOLDER / name) != text]
    for name in stale:
        print(f"{'not up to date' if check else 'written'}: docs/reference/{name}")
        if not check:
            (FOLDER / name).write_text(pages()[name], encoding="utf-8")
    if check and stale:
        print("run python docs/make_reference.py", file=sys.stderr)
    return int(check and bool(stale))


def pages() -> dict[str, str]:
    """Return the text of every page by its name."""
    made = {"options.md": options(), "metrics.md": metrics(), "results.md": results(), "parameters.md": parameters()}
    return {name: _page(lines) for name, lines in made.items()}


def options() -> Iterator[str]:
    """Yield the lines of the page about pytest's options and both command lines."""
    yield from ("# Options and commands", _NOTE)
    yield "[Pytest](#pytest), [`carico-testbed`](#carico-testbed), [`carico`](#carico). Every command shows its options"
    yield "with `--help`, too. How schedulers are named (SPEC) has [a page of its own](spec.md).\n"
    yield from ("## Pytest\n", "Tests that [the plugin](../how-to/pytest.md) runs have these options.\n")
    yield from _options_of(_plugin_parser())
    flags = ", ".join(f"`--carico-{name.replace('_', '-')}`" for name in FLAGS_ONLY)
    yield "\nAn option's default can be set in the ini file, under its name with underscores: `carico_preset = ci`"
    yield f"(not for {flags}). A key that begins with `carico` and that nothing declares ends the session"
    yield "with exit code 4.\n"
    for parser in (testbed_parser(), carico_parser("carico")):
        yield f"\n## {parser.prog}\n"
        yield f"{_text(parser.description or '')}\n"
        yield from _commands_of(parser, level=3)


def metrics() -> Iterator[str]:
    """Yield the lines of the page about metrics."""
    yield from ("# Metrics", _NOTE)
    yield (
        "What is measured of every repetition. `carico-testbed compare --metric NAME:STATISTIC` and the conditions of "
        "a [gate](gate.md) name metrics so; `testbed.results.load` has them as [`data_items`](../how-to/frames.md).\n"
    )
    yield from _row("metric", "unit", "what it is", "better", "compared by default", "statistics")
    yield "|---|---|---|---|---|---|"
    better = {True: "less", False: "more", None: "neither"}
    for one in METRICS.values():
        every = statistics_of(one)
        shown = "all" if len(every) > len(one.statistics) + 1 else _codes(every)
        compared = "" if one.less_is_better is None else _codes(one.statistics)
        yield from _row(f"`{one.name}`", one.unit, _text(one.meaning), better[one.less_is_better], compared, shown)
    yield "\n`value` stands for a metric that is one number. The statistics of a distribution are"
    yield f"{_codes(statistics_of(METRICS['pod_completion_time']))}; `p90` is the 90th percentile."
    only_real = (one.name for one in METRICS.values() if not one.simulated)
    yield (
        f"\nWhere neither direction is better, a metric explains, and is never judged. Figures that may be 0 "
        f"({_codes(one.name for one in METRICS.values() if not one.relative)}) are compared by their difference, all "
        f"others by their ratio ([statistics](statistics.md)). Only real clusters measure {_codes(only_real)}; the "
        f"simulated one does not. [Measurements of your own](../how-to/own-measurement.md) are added to these."
    )


def results() -> Iterator[str]:
    """Yield the lines of the page about the files that runs leave."""
    yield from ("# Results files", _NOTE)
    yield (
        "The files in the folder of a run, `.carico/runs/ID`. Their JSON Schemas are in the package, in "
        "`testbed/results/schemas`, and `carico-testbed schema NAME` prints them. In Python, "
        "[`testbed.results.load`](../how-to/frames.md) reads the files as frames of pandas. Times are seconds since "
        "the scenario began, and None is written as null. Unknown fields are ignored, and a newer `schema_version` is "
        "refused.\n"
    )
    kinds: dict[str, Any] = {}
    for name, (what, _) in FILES.items():
        described = schema_of(name)
        kinds |= described["$defs"]
        yield f"- `{name}` ({_text(what)}) is an object [{_type(described)}](#{_type(described).lower()})."
    meanings = _meanings()
    for kind, described in kinds.items():
        yield f"\n## {kind}\n\n{_text(described.get('description', ''))}\n"
        yield from _row("field", "type", "default", "meaning")
        yield "|---|---|---|---|"
        for field, of in described["properties"].items():
            default = "required" if field in described.get("required", ()) else _default(of.get("default"))
            yield from _row(f"`{field}`", _type(of), default, _text(meanings.get((kind, field), "")))


def parameters() -> Iterator[str]:
    """Yield the lines of the page about the parameters of CARICO's variants."""
    yield from ("# Parameters of CARICO", _NOTE)
    yield "A variant is a complete set of parameters. A [SPEC](spec.md) names one and may change any parameter:"
    yield "`carico:variant=thesis-rebased,hold_off_s=2`. [The design](../design.md) explains the choices.\n"
    yield from _row("variant", "what it is")
    yield "|---|---|"
    for name, variant in VARIANTS.items():
        yield from _row(f"`{name}`", _text(variant.description))
    for title, kind in _parameter_sets().items():
        described = _attribute_docs(kind)
        yield f"\n## {title}\n"
        yield from _row("parameter", "default", "meaning")
        yield "|---|---|---|"
        for one in fields(kind):
            if one.name in ("name", "description", "kalman"):
                continue
            default = "" if one.default is MISSING else f"`{one.default}`"
            yield from _row(f"`{one.name}`", default, _text(described.get(one.name, "")))
    yield "\nWhere several parameters belong together, the last of them has the meaning of all."


def _parameter_sets() -> dict[str, type]:
    thesis, demand = VARIANTS["thesis-rebased"], VARIANTS["demand"]
    return {
        "The thesis's variants": type(thesis),
        "Their Kalman filter": type(thesis.kalman),  # type: ignore[union-attr]
        "The variant demand": type(demand),
    }


def _plugin_parser() -> argparse.ArgumentParser:
    """Return the plugin's options as a parser: pytest's own has all plugins' options."""
    parser = argparse.ArgumentParser(prog="pytest")
    group = SimpleNamespace(addoption=parser.add_argument)
    add_options(SimpleNamespace(getgroup=lambda *_: group, addini=lambda *_, **__: None))  # type: ignore[arg-type]
    return parser


def _commands_of(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in dict.fromkeys(action.choices.values()):
                yield f"{'#' * level} {command.prog}\n"
                yield f"{_text(command.description or '')}\n"
                yield from _options_of(command)
                yield ""
                yield from _commands_of(command, min(level + 1, 5))


def _options_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    shown = [one for one in parser._actions if not isinstance(one, argparse._HelpAction | argparse._SubParsersAction)]
    shown = [one for one in shown if one.help != argparse.SUPPRESS]
    if not shown:
        return
    yield from _row("option", "what it does")
    yield "|---|---|"
    for action in shown:
        written = [" ".join((name, *_values(action))) for name in action.option_strings] or list(_values(action))
        text = (action.help or "") % {**vars(action), "prog": parser.prog}
        yield from _row(", ".join(f"`{one}`" for one in written), _text(text))


def _values(action: argparse.Action) -> Iterator[str]:
    """Yield how the values of an option are written."""
    if action.nargs == 0:
        return
    metavar = action.metavar
    if metavar is None:
        metavar = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
    for one in (metavar,) if isinstance(metavar, str) else metavar:
        yield {"*": f"[{one} ...]", "+": f"{one} [{one} ...]", "?": f"[{one}]", "...": f"{one} ..."}.get(
            str(action.nargs), one
        )


def _type(of: dict[str, Any]) -> str:
    """Return how a page writes a JSON Schema's type."""
    if "$ref" in of:
        return str(of["$ref"].rpartition("/")[2])
    if "anyOf" in of:
        return " or ".join(_type(one) for one in of["anyOf"])
    if "enum" in of:
        return ", ".join(f"`{one}`" for one in of["enum"])
    kind = of.get("type", "any")
    if kind == "array":
        return f"list of {_type(of['items'])}" if "items" in of else "list"
    if kind == "object":
        inner = of.get("additionalProperties")
        return f"object of {_type(inner)}" if isinstance(inner, dict) and inner else "object"
    return str(kind)


def _default(value: Any) -> str:
    empty = value in ("", [], {}, None) or isinstance(value, dict)
    return "none" if empty else f"`{value}`"


def _meanings() -> dict[tuple[str, str], str]:
    """Return the docstrings of all fields of the results files, by class and field."""
    classes = (one for module in _MODULES for one in vars(module).values() if inspect.isclass(one))
    ours = {one for one in classes if one.__module__.startswith("testbed.results")}
    return {(one.__name__, name): text for one in ours for name, text in _attribute_docs(one).items()}


def _attribute_docs(kind: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class."""
    (definition,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for field, following in zip(definition.body, definition.body[1:], strict=False):
        match field, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
    return found


def _row(*cells: str) -> Iterator[str]:
    yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _text(text: str) -> str:
    """Return a text of the code as one line of Markdown."""
    text = re.sub(r"``(.+?)``", r"`\1`", " ".join(text.split()))
    outside = re.split(r"(`[^`]*`)", text)
    return "".join(one if one.startswith("`") else re.sub(r"([*<_])", r"\\\1", one) for one in outside)


def _page(lines: Iterable[str]) -> str:
    text = "\n".join(lines)
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def _written(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
