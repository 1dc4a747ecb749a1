"""Without the testbed's packages everything that needs it says in one line how to get it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from carico import __version__
from testbed.cli import main
from testbed.commands import HELP
from testbed.requirements import MODULES

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"
WITHOUT = "import sys; sys.modules.update(dict.fromkeys(['filelock', 'msgspec', 'scipy', 'shtab', 'simpy', 'yaml']))\n"
REMEDY = (
    "the testbed needs filelock, msgspec, scipy, shtab, simpy, pyyaml: pip install carico-testbed, or in a clone pip "
    "install ."
)


def python(code, cwd):
    # The options keep other plugins from needing what is not there.
    return subprocess.run([sys.executable, "-c", WITHOUT + code], cwd=cwd, capture_output=True, text=True, check=False)


def pytest_sessions(cwd, *sessions):
    """Run pytest with each of the arguments in turn, in one process whose last line of output has the exit codes."""
    without = [f"no:{plugin}" for plugin in ("hypothesispytest", "cacheprovider", "pytest-kind")]
    options = [word for plugin in ("testbed.plugin", *without) for word in ("-p", plugin)]
    calls = [[*options, *arguments] for arguments in sessions]
    return python(f"import pytest; print([int(pytest.main(call)) for call in {calls}])", cwd)


def test_the_command_says_it_but_for_the_version(tmp_path):
    calls = [["list"], ["run", "pi-2000"], [], ["--version"]]
    done = python(f"from testbed.__main__ import main; print([main(arguments) for arguments in {calls}])", tmp_path)
    assert done.stderr == 3 * f"carico-testbed: {REMEDY}\n"
    assert done.stdout == f"carico-testbed {__version__}\n[4, 4, 4, 0]\n"


def test_help_lists_the_commands_whatever_is_installed(tmp_path):
    done = python("from testbed.__main__ import main; print(main(['--help']))", tmp_path)
    assert all(f"\n  {name}" in done.stdout for name in HELP)
    assert done.stdout.endswith(f"\n{REMEDY}\n0\n")
    assert not done.stderr


def test_where_everything_is_installed_help_lists_the_same_commands(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert re.findall(r"\n    ([a-z]+)", capsys.readouterr().out) == list(HELP)


def test_a_session_that_asks_for_a_cluster(tmp_path):
    head = "import pytest\n\n"
    (tmp_path / "test_cluster.py").write_text(f"{head}@pytest.mark.cluster\ndef test_one(): pass\n")
    (tmp_path / "test_marked.py").write_text(f"{head}@pytest.mark.carico('pi-2000')\ndef test_one(): pass\n")
    (tmp_path / "test_unit.py").write_text("def test_one(): pass\n")
    done = pytest_sessions(
        tmp_path,
        ["test_cluster.py", "-m", "cluster"],
        ["test_marked.py"],
        ["test_unit.py", "--carico-set=pressure=kernel"],
    )
    assert done.stdout.splitlines()[-1] == "[4, 4, 4]"
    assert done.stderr.splitlines().count(f"ERROR: carico: {REMEDY}") == 3
    assert "Traceback" not in done.stdout + done.stderr


def test_a_session_that_is_to_skip_what_it_cannot_measure_runs_the_other_tests(tmp_path):
    (tmp_path / "test_one.py").write_text(
        "import pytest\n\n@pytest.mark.cluster\n@pytest.mark.carico('pi-2000')\ndef test_one(carico_results): pass\n"
        "\ndef test_unit(): pass\n"
    )
    done = pytest_sessions(tmp_path, ["--carico-missing=skip", "--carico-set=pressure=kernel"])
    assert done.stdout.splitlines()[-1] == "[0]"
    assert "NOT MEASURED: 1\n  test_one\n    the testbed needs filelock, msgspec, scipy, shtab, " in done.stdout
    assert "= 1 passed, 1 skipped in " in done.stdout
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == ["test_one.py"]


def test_a_session_without_cluster_tests_goes_on_and_a_fixture_says_it(tmp_path):
    (tmp_path / "test_one.py").write_text("def test_unit(): pass\n\ndef test_one(carico_experiment): pass\n")
    done = pytest_sessions(tmp_path, [])
    assert done.stdout.splitlines()[-1] == "[1]"
    assert f"testbed.errors.MissingExtra: {REMEDY}" in done.stdout
    assert "= 1 passed, 1 error in " in done.stdout


def test_every_package_of_an_extra_is_asked_for():
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    extras = {**project["optional-dependencies"], "testbed": project["dependencies"]}
    for extra in MODULES.keys() - {"testbed"}:
        extras[extra] = [*extras[extra], *project["dependencies"]]

    def packages(extra):
        found = set()
        for one in map(Requirement, extras[extra]):
            found |= set().union(*map(packages, one.extras)) if one.name == "carico-testbed" else {one.name}
        return found

    brought_along = {"numpy", "packaging", "protobuf", "pytest"}
    assert {extra: packages(extra) - brought_along for extra in MODULES} == {
        extra: set(modules.values()) for extra, modules in MODULES.items()
    }
