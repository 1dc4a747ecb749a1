"""The JSON Schemas that are shipped: up to date, and true of what runs leave."""

import json

import jsonschema
import pytest

from testbed.cli import main
from testbed.results.json_schema import FILES, schema_of, shipped, text_of


@pytest.mark.parametrize("name", FILES)
def test_what_is_shipped_is_up_to_date(name):
    assert shipped(name) == text_of(name), f"carico-testbed schema {name} > testbed/results/schemas/{name}.json"


@pytest.mark.parametrize("name", FILES)
def test_the_command_prints_a_schema(name, capsys):
    assert main(["schema", name]) == 0
    found = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(found)


def test_a_validator_accepts_what_a_run_leaves(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "isolation-one-node", "--scheduler", "carico", "--quiet"]) == 0
    for name in ("result", "run"):
        found = json.loads((tmp_path / f".carico/latest/{name}.json").read_text())
        jsonschema.validate(found, schema_of(name))
    found["seed"] = "one"
    with pytest.raises(jsonschema.ValidationError, match="'one' is not of type 'integer'"):
        jsonschema.validate(found, schema_of("run"))
