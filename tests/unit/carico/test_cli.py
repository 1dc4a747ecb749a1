"""The command `carico`: arguments, exit codes, and errors of one line."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import carico
from carico.cli import main
from carico.config import AgentConfig, AggregatorConfig, ExtenderConfig
from carico.testing import FakeProc, ManualClock


@pytest.fixture
def machine(tmp_path):
    return FakeProc(tmp_path / "proc")


@pytest.fixture
def clock(machine, monkeypatch):
    clock = ManualClock()
    clock.on_advance = machine.elapse
    monkeypatch.setattr("carico.commands.watch.SystemClock", lambda: clock)
    return clock


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def watch(machine, *arguments):
    return main(["watch", "--proc", str(machine.root), *arguments])


def test_watch_prints_json_for_the_given_seconds(machine, clock, capsys):
    machine.cpu_utilisation = 0.5
    assert watch(machine, "--json", "--duration", "3") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["at_s"] for row in rows] == [1.0, 2.0, 3.0]
    assert [row["cpu_utilisation"] for row in rows] == [0.5] * 3
    assert [row["pods"] for row in rows] == [0] * 3


def test_a_constant_number_of_pods(machine, clock, capsys):
    assert watch(machine, "--pods", "7", "--duration", "1") == 0
    out = capsys.readouterr().out
    assert out.startswith("carico watch: pods fixed at 7\n")
    assert out.splitlines()[-1].split()[4] == "7"


def test_processes_that_stand_for_pods(machine, clock, capsys):
    def a_pod_starts_after_two_seconds(seconds):
        machine.elapse(seconds)
        if clock.now() + seconds == 2.5:
            machine.start_process(77, "python", "-m", "job")

    clock.on_advance = a_pod_starts_after_two_seconds
    machine.start_process(76, "python", "-m", "job")
    assert watch(machine, "--pods-matching", "^python -m job", "--json", "--duration", "4") == 0
    assert [json.loads(line)["pods"] for line in capsys.readouterr().out.splitlines()] == [1, 1, 2, 2]


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"carico {carico.__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["watch", "--help"]])
def test_help(capsys, arguments):
    with pytest.raises(SystemExit, match="0"):
        main(arguments)
    assert "watch" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["wtch"], "invalid choice: 'wtch' .*, did you mean 'watch'\\?"),
        (["stauts"], "invalid choice: 'stauts' .*, did you mean 'status'\\?"),
        (["status", "--namespce", "a"], "carico status: error: .* --namespce a, did you mean '--namespace'\\?"),
        (["costs", "-o", "jsno"], "invalid choice: 'jsno' .*, did you mean 'json'\\?"),
        (["watch", "--pods", "-1"], "from 0 on is needed, got '-1'"),
        (["watch", "--pods", "few"], "from 0 on is needed, got 'few'"),
        (["watch", "--pods-matching", "(pi"], r"a regular expression is needed, got '\(pi': missing \)"),
        (["watch", "--pods-matching", ""], "a pattern is needed; an empty one matches every process"),
        (["watch", "--pods", "1", "--pods-matching", "pi"], "not allowed with"),
        (["watch", "--duration", "-3"], "a number of seconds from 1 on is needed, got '-3'"),
        (["watch", "--duration", "0.5"], "from 1 on is needed, got '0.5'"),
        (["watch", "--duration", "nan"], "from 1 on is needed, got 'nan'"),
        (["watch", "--duration", "inf"], "from 1 on is needed, got 'inf'"),
        (["watch", "--duration", "soon"], "from 1 on is needed, got 'soon'"),
    ],
)
def test_wrong_arguments_are_refused_first(capsys, arguments, message):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.search(message, captured.err)


def remove_stat(machine):
    machine.remove("stat")
    return "stat"


def switch_pressure_off(machine):
    machine.remove("pressure/cpu")
    return "psi=1"


def damage_meminfo(machine):
    machine.write("meminfo", "MemTotal: much\n")
    return "MemTotal: much"


@pytest.mark.parametrize("break_it", [remove_stat, switch_pressure_off, damage_meminfo])
@pytest.mark.parametrize("json_flag", [[], ["--json"]])
def test_unreadable_telemetry_is_one_line_of_error(machine, clock, capsys, break_it, json_flag):
    message = break_it(machine)
    clock.on_advance = lambda seconds: None
    assert watch(machine, *json_flag) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("carico: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_an_error_is_one_line_that_moves_no_cursor(tmp_path, capsys):
    config = tmp_path / "agent.yaml"
    config.write_text(json.dumps({"no\x1b[2J\nfield": 1}))
    assert main(["agent", "--config", str(config)]) == 1
    error = capsys.readouterr().err
    assert "no?[2J?field" in error
    assert error.count("\n") == 1
    assert error.rstrip("\n").isprintable()


@pytest.mark.parametrize("struct", [AgentConfig, AggregatorConfig, ExtenderConfig])
def test_the_help_says_where_the_fields_of_a_configuration_are(capsys, struct):
    with pytest.raises(SystemExit, match="0"):
        main([struct.__name__.removesuffix("Config").lower(), "--help"])
    assert f"python -m pydoc carico.config.{struct.__name__}" in " ".join(capsys.readouterr().out.split())


class Uninstalled(ModuleType):
    """A module that imports a package which is not installed."""

    def __init__(self, name, missing):
        super().__init__(name)
        self._missing = missing

    def __getattr__(self, name):
        raise ModuleNotFoundError(name=self.__dict__["_missing"])


@pytest.mark.parametrize(
    ("command", "module", "missing", "extra"),
    [
        ("agent", "carico.agent.process", "prometheus_client", "agent"),
        ("agent", "carico.agent.process", "kubernetes", "scheduler"),
        ("aggregator", "carico.aggregation.process", "prometheus_client", "agent"),
        ("extender", "carico.extender.process", "prometheus_client", "scheduler"),
    ],
)
def test_a_missing_package_is_an_error_that_names_the_extra(
    monkeypatch, tmp_path, capsys, command, module, missing, extra
):
    (tmp_path / "config.yaml").write_text("insecure_loopback: true")
    monkeypatch.setitem(sys.modules, module, Uninstalled(module, missing))
    assert main([command, "--config", str(tmp_path / "config.yaml")]) == 4
    assert f"this needs {missing}, which is not installed: pip install 'carico-testbed[{extra}]'" in (
        capsys.readouterr().err
    )


def test_ctrl_c_ends_with_130(machine, clock, capsys):
    def interrupt(seconds):
        machine.elapse(seconds)
        if clock.now() > 2:
            signal.raise_signal(signal.SIGINT)

    clock.on_advance = interrupt
    assert watch(machine, "--json") == 130
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 2
    assert captured.err == ""


def test_sigterm_ends_with_143_and_the_handler_is_put_back(machine, clock):
    before = signal.getsignal(signal.SIGTERM)
    descriptors = open_descriptors()
    clock.on_advance = lambda seconds: signal.raise_signal(signal.SIGTERM)
    with pytest.raises(SystemExit, match="143"):
        watch(machine)
    assert signal.getsignal(signal.SIGTERM) is before
    assert open_descriptors() == descriptors


# Runs in a process of its own, because standard output fails there, and under a manual clock, so that it never waits.
PROGRAM = (
    "import sys; from carico import cli; from carico.commands import watch; from carico.testing import ManualClock;"
    "clock = ManualClock(); watch.SystemClock = lambda: clock; sys.exit(cli.main())"
)


def test_a_closed_pipe_is_not_an_error(machine):
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "watch", "--json", "--proc", machine.root],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_a_full_disk_is_one_line_of_error(machine):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, "watch", "--proc", machine.root],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("carico: the output cannot be written: ")
    assert done.stderr.count("\n") == 1
