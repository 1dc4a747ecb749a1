"""Command lines: unknown names are told with what was probably meant."""

import re

import pytest

from testbed.cli import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["comparee"], "invalid choice: 'comparee' .*, did you mean 'compare'\\?"),
        (["rnu"], "invalid choice: 'rnu' .*, did you mean 'run'\\?"),
        (["run", "pi-2000", "--repetitons", "3"], "carico-testbed run: error: .*, did you mean '--repetitions'\\?"),
        (
            ["run", "pi-2000", "--sed", "3", "--repetitons", "3"],
            "--sed 3 --repetitons 3, did you mean '--seed' and '--repetitions'\\?",
        ),
        (["run", "pi-2000", "--provider", "kin"], "invalid choice: 'kin' .*, did you mean 'kind'\\?"),
        (["images", "biuld"], "invalid choice: 'biuld' .*, did you mean 'build'\\?"),
        (["run", "pi-2000", "--carico-provider=kind"], "did you mean '--provider'\\?"),
        (["run", "pi-2000", "--preset", "smoke"], "unrecognized arguments: --preset smoke\n$"),
        (["run", "pi-2000", "--1234567"], "unrecognized arguments: --1234567\n$"),
        (["list", "settings", "more"], "unrecognized arguments: more\n$"),
    ],
)
def test_what_was_probably_meant_is_told(capsys, arguments, message):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert re.search(message, capsys.readouterr().err)
