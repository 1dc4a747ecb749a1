"""Without the extra `testbed` everything that needs it says in one line how to get it."""

import subprocess
import sys

import pytest

WITHOUT = "import sys; sys.modules.update(dict.fromkeys(['msgspec', 'scipy', 'simpy', 'yaml']))\n"
REMEDY = (
    "the testbed needs msgspec, scipy, simpy, pyyaml: pip install 'carico-testbed[testbed]', or in a clone "
    "pip install '.[testbed]'"
)


def python(code, cwd):
    # The options keep other plugins from needing what is not there.
    return subprocess.run([sys.executable, "-c", WITHOUT + code], cwd=cwd, capture_output=True, text=True, check=False)


def pytest_session(cwd, *arguments):
    without = [f"no:{plugin}" for plugin in ("hypothesispytest", "cacheprovider", "pytest-kind")]
    arguments = [word for plugin in ("testbed.plugin", *without) for word in ("-p", plugin)] + [*arguments]
    return python(f"import pytest; sys.exit(pytest.main({arguments}))", cwd)


@pytest.mark.parametrize("arguments", [["list"], ["run", "pi-2000"], ["--help"], []])
def test_the_command(tmp_path, arguments):
    done = python(f"from testbed.__main__ import main; sys.exit(main({arguments}))", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (4, "", f"carico-testbed: {REMEDY}\n")


def test_the_version_needs_nothing(tmp_path):
    done = python("from testbed.__main__ import main; sys.exit(main(['--version']))", tmp_path)
    assert (done.returncode, done.stdout.split()[0], done.stderr) == (0, "carico-testbed", "")


@pytest.mark.parametrize(
    ("test", "arguments"),
    [
        ("@pytest.mark.cluster\ndef test_one(): pass", ["-m", "cluster"]),
        ("@pytest.mark.carico('pi-2000')\ndef test_one(): pass", []),
        ("def test_one(): pass", ["--carico-set=pressure=kernel"]),
    ],
)
def test_a_session_that_asks_for_a_cluster(tmp_path, test, arguments):
    (tmp_path / "test_one.py").write_text(f"import pytest\n\n{test}\n")
    done = pytest_session(tmp_path, *arguments)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: carico: {REMEDY}" in done.stderr.splitlines()
    assert "Traceback" not in done.stdout + done.stderr


def test_a_session_that_is_to_skip_what_it_cannot_measure(tmp_path):
    (tmp_path / "test_one.py").write_text(
        "import pytest\n\n@pytest.mark.cluster\n@pytest.mark.carico('pi-2000')\ndef test_one(carico_results): pass\n"
    )
    done = pytest_session(tmp_path, "--carico-missing=skip", "--carico-set=pressure=kernel")
    assert done.returncode == 0
    assert "NOT MEASURED: 1\n  test_one\n    the testbed needs msgspec, scipy, simpy, pyyaml: pip" in done.stdout
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == ["test_one.py"]


def test_a_fixture(tmp_path):
    (tmp_path / "test_one.py").write_text("def test_one(carico_experiment): pass\n")
    done = pytest_session(tmp_path)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert f"testbed.errors.MissingExtra: {REMEDY}" in done.stdout


def test_a_session_without_cluster_tests_goes_on(tmp_path):
    (tmp_path / "test_one.py").write_text("def test_one(): pass\n")
    assert pytest_session(tmp_path).returncode == 0
