"""The JSON Schemas of the files that runs leave, for programs in other languages; shipped beside this module.

`carico-testbed schema NAME > testbed/results/schemas/NAME.json` brings a shipped one up to date.
"""

from __future__ import annotations

from importlib.resources import files
from inspect import cleandoc
from typing import Any

import msgspec

from testbed.results.gate_file import GateFile
from testbed.results.outcomes_file import OutcomesFile
from testbed.results.repetition_log import LogEntry
from testbed.results.run import Run
from testbed.results.schema import Results

FILES: dict[str, tuple[str, type[msgspec.Struct]]] = {
    "result": ("result.json, or what --json and --carico-json write", Results),
    "repetitions": ("a line of repetitions.jsonl", LogEntry),
    "run": ("run.json", Run),
    "outcomes": ("outcomes.json", OutcomesFile),
    "gate": ("gate.json, or a file in the folder gates", GateFile),
}
"""By name: what has the schema, and its type."""


def schema_of(name: str) -> dict[str, Any]:
    """Return the schema of a file, made from its types."""
    what, kind = FILES[name]
    (reference,), components = msgspec.json.schema_components((kind,), ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"carico-testbed: {what}",
        **reference,
        "$defs": _whatever_version(components),
    }


def _whatever_version(value: Any) -> Any:
    """Remove what depends on versions: where null is among alternatives on msgspec's, indentation on Python's."""
    if isinstance(value, list):
        return [_whatever_version(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {name: _whatever_version(one) for name, one in value.items()}
    if "anyOf" in found:
        found["anyOf"].sort(key={"type": "null"}.__eq__)
    if isinstance(found.get("description"), str):
        found["description"] = cleandoc(found["description"])
    return found


def text_of(name: str) -> str:
    """Return the schema as text, as it is shipped."""
    return msgspec.json.format(msgspec.json.encode(schema_of(name), order="sorted"), indent=2).decode() + "\n"


def shipped(name: str) -> str:
    """Return the text of a schema that is shipped."""
    return (files("testbed.results") / "schemas" / f"{name}.json").read_text(encoding="utf-8")
