"""`serve` and `poll` as programs: what they print and write, and how they end."""

import contextlib
import errno
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from workloads.histogram import LatencyHistogram
from workloads.web import __main__ as web
from workloads.web.poller import Poller, parse_url

PROGRAM = [sys.executable, "-m", "workloads.web"]


@contextmanager
def running(*arguments):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*PROGRAM, *arguments], text=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def ticks_of_last_thread(pid, threads):
    """CPU time in user mode of the newest thread, if there are so many."""
    tasks = sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda task: int(task.name))
    return int((tasks[-1] / "stat").read_text().rsplit(")", 1)[1].split()[11]) if len(tasks) == threads else 0


@contextmanager
def serving(*options):
    with running("serve", "--port=0", *options) as process:
        words = process.stdout.readline().split()
        assert words[:2] == ["listening", "on"]
        yield process, words[2]


def read(path):
    content = json.loads(path.read_text())
    return content, content["errors"], content["reasons"]


def quantile_ms(content, q):
    """The edges of the bin that a quantile is in."""
    counts = np.cumsum([count for *_, count in content["bins"]])
    lower, upper, _ = content["bins"][int(np.searchsorted(counts, q * content["count"]))]
    return lower, upper


def figures(output):
    head, values = (line.split() for line in output.splitlines()[:2])
    assert head[-1] == "(ms)"
    return dict(zip(head[:-1], map(float, values), strict=True))


def test_one_measures_the_other(tmp_path):
    with serving("--service-ms=1") as (server, url):
        finished = subprocess.run(
            [*PROGRAM, "poll", url, "--interval=0.002", "--requests=20", f"--json={tmp_path / 'latencies.json'}"],
            capture_output=True,
            text=True,
            check=False,
        )
        server.terminate()
        rest = server.communicate(timeout=10)
    assert (server.returncode, rest) == (0, ("", ""))
    assert (finished.returncode, finished.stderr) == (0, "")
    table = figures(finished.stdout)
    assert list(table) == ["count", "errors", "min", "median", "p90", "p95", "p99", "max"]
    assert (table["count"], table["errors"]) == (20, 0)
    assert 1 <= table["min"] <= table["median"] <= table["p90"] <= table["p95"] <= table["p99"] <= table["max"]
    content, errors, reasons = read(tmp_path / "latencies.json")
    assert (content["count"], errors, reasons) == (20, 0, {})
    lower, upper = quantile_ms(content, 0.9)
    assert lower - 0.005 <= table["p90"] <= upper + 0.005
    assert [path.name for path in tmp_path.iterdir()] == ["latencies.json"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_partial_results_survive_a_signal(tmp_path, serve, target_of, until, monkeypatch, number, code):
    server, seen = serve(), []
    monkeypatch.setattr(server, "work", lambda: seen.append(1))
    url = target_of(server).text
    with running("poll", url, "--interval=0.001", f"--json={tmp_path / 'l.json'}") as poller:
        until(lambda: len(seen) > 2)  # one in flight at a time: two have been answered and counted
        poller.send_signal(number)
        output, errors = poller.communicate(timeout=10)
    assert (poller.returncode, errors) == (code, "")
    content, failed, _ = read(tmp_path / "l.json")
    assert content["count"] >= 2
    assert failed == 0
    assert figures(output)["count"] == content["count"]


def test_a_signal_ends_it_while_a_server_says_nothing(serve, target_of, until, monkeypatch):
    waiting, leave = threading.Event(), threading.Event()
    server = serve()
    monkeypatch.setattr(server, "work", lambda: (waiting.set(), leave.wait(30)))
    with running("poll", target_of(server).text) as poller:
        assert waiting.wait(30)
        poller.terminate()
        output, errors = poller.communicate(timeout=10)
    leave.set()
    assert (poller.returncode, output) == (1, "")
    assert "no answer from http://127.0.0.1" in errors


def test_a_server_that_is_killed_leaves_what_was_measured(until):
    with serving() as (process, url):
        poller = Poller(parse_url(url), interval_s=0.01, timeout_s=5, duration_s=0.6)
        polling = threading.Thread(target=poller.run)
        polling.start()
        until(lambda: poller.results()[0].count)
        process.kill()
        polling.join()
    histogram, errors = poller.results()
    assert histogram.count >= 1
    assert errors["refused"] >= 1


def test_the_server_finishes_what_is_in_flight(until):
    with serving("--service-ms=300") as (process, url):
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", "/")
            # Main thread, the one that accepts, and the connection's, which is at work when it has used CPU time.
            until(lambda: ticks_of_last_thread(process.pid, threads=3) >= 2)
            process.terminate()
            assert connection.getresponse().read() == b"done\n"
        rest = process.communicate(timeout=10)
    assert (process.returncode, rest) == (0, ("", ""))


def test_without_an_answer_it_has_failed_and_says_why(tmp_path, capsys, serve, target_of):
    url = target_of(serve(), "/nope").text
    file = tmp_path / "l.json"
    assert web.main(["poll", url, "--requests=3", "--interval=0.001", f"--json={file}"]) == 1
    assert capsys.readouterr() == (
        "",
        f"web: no answer from {url}: 3 status 404; check the address and the server\n",
    )
    content, failed, reasons = read(file)
    assert (content["count"], failed, reasons) == (0, 3, {"status 404": 3})


def test_errors_are_listed_below_the_table():
    histogram = LatencyHistogram()
    histogram.add(0.0015)
    lines = web.table(histogram, Counter({"refused": 2, "timed out": 11})).splitlines()
    assert lines[1].split() == ["1", "13", *["1.50"] * 6]
    assert lines[2:] == ["errors: 11 timed out, 2 refused"]


def test_a_file_that_cannot_be_written_in_the_end_loses_no_result(tmp_path, capsys, serve, target_of, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    file = tmp_path / "l.json"
    file.write_text("what was there")
    assert web.main(["poll", target_of(serve()).text, "--requests=3", "--interval=0.001", f"--json={file}"]) == 1
    output, errors = capsys.readouterr()
    assert figures(output)["count"] == 3
    assert errors == f"web: cannot write {file}: No space left on device\n"
    assert file.read_text() == "what was there"
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_in_place_of_the_draft_is_not_followed(tmp_path, serve, target_of):
    file, victim = tmp_path / "l.json", tmp_path / "victim"
    victim.write_text("untouched")
    (tmp_path / f".l.json.{os.getpid()}.tmp").symlink_to(victim)
    assert web.main(["poll", target_of(serve()).text, "--requests=3", "--interval=0.001", f"--json={file}"]) == 0
    assert victim.read_text() == "untouched"
    assert not file.is_symlink()
    assert read(file)[0]["count"] == 3


def test_signals_are_back_in_place_afterwards(serve, target_of):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    web.main(["poll", target_of(serve()).text, "--requests=1"])
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_a_port_that_is_taken_is_one_message(capsys, serve):
    port = serve().server_address[1]
    assert web.main(["serve", f"--port={port}"]) == 1
    assert f"web: cannot listen on 127.0.0.1 port {port}: [Errno 98] Address already in use" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["a..b", "192.0.2.1"])
def test_a_host_that_is_none_is_one_message(capsys, host):
    assert web.main(["serve", f"--host={host}"]) == 1
    assert f"web: cannot listen on {host} port 8080" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "arguments are required: serve|poll"),
        ("serve --port=65536", "'65536' is not a whole number from 0 to 65535"),
        ("serve --threads=0", "'0' is not a whole number from 1 to 1024"),
        ("serve --service-ms=-1", "'-1' is not a number from 0 to 60000"),
        ("poll", "arguments are required: URL"),
        ("poll ftp://localhost", "'ftp://localhost' is not an address of the form http://HOST"),
        ("poll http://localhost --interval=0", "'0' is not a number from 0.0001"),
        ("poll http://localhost --timeout=inf", "'inf' is not a number"),
        ("poll http://localhost --requests=0", "'0' is not a whole number from 1"),
        ("poll http://localhost --requests=1 --duration=1", "not allowed with argument"),
        ("poll http://localhost --json=/no/such/folder/l.json", "its folder is missing or read-only"),
        ("poll http://localhost --json=/dev/null", "'/dev/null' is not a file: name one"),
        ("poll http://localhost --json=.", "'.' is not a file: name one"),
    ],
)
def test_nonsense_is_wrong_usage(capsys, arguments, message):
    with pytest.raises(SystemExit) as exit_:
        web.main(arguments.split())
    assert exit_.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_runs_on_the_standard_library_alone():
    root = str(Path(web.__file__).parents[2])
    program = f"import sys; sys.path.insert(0, {root!r}); from workloads.web.__main__ import main; main(['poll', '-h'])"
    finished = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")


def test_every_answer_is_told_when_it_was_due():
    with serving() as (_, url):
        began = time.time()
        done = subprocess.run(
            [sys.executable, "-m", "workloads.web", "poll", url, "--each", "--interval=0.05", "--requests=3"],
            capture_output=True,
            text=True,
            check=True,
        )
    told = re.findall(r"^due_unix_s=(\S+) latency_s=(\S+)$", done.stdout, re.MULTILINE)
    due = [float(due) for due, _ in told]
    assert [round(later - due[0], 3) for later in due] == [0.0, 0.05, 0.1]
    assert began < due[0] < time.time()
    assert all(0 < float(latency) < 1 for _, latency in told)
