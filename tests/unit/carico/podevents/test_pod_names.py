"""The copy of pods' names, as a process of its own and beside the agent's source that reads the copy."""

import itertools
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.podevents.cgroups import CgroupEvents
from carico.podevents.folder_watch import PollingWatch, folder_watch
from carico.podevents.pod_logs import PodLogs
from carico.podevents.pod_names import READY, PodNames
from carico.testing import ManualClock

UIDS = [f"0f3cd{number:03d}-9d1c-4a53-8f0e-5a4fbb9a3e1{number}" for number in range(3)]


@pytest.fixture
def folders(tmp_path):
    """Of logs, and of the copy."""
    made = tmp_path / "logs", tmp_path / "copy"
    for folder in made:
        folder.mkdir()
    return made


def tree(folder):
    """Return what is in the copy; `os.walk`, unlike `rglob`, lets another process remove folders meanwhile."""
    below = (Path(place) / name for place, *names in os.walk(folder) for name in itertools.chain(*names))
    return {str(path.relative_to(folder)) for path in below} - {READY}


PODS = st.dictionaries(st.sampled_from([f"jobs_pi-{uid[5:8]}_{uid}" for uid in UIDS]), st.sets(st.sampled_from("ab")))


@given(looks=st.lists(PODS, min_size=1, max_size=4), restarts=st.booleans())
def test_the_copy_has_the_pods_and_the_first_container_of_each(tmp_path_factory, looks, restarts):
    place = tmp_path_factory.mktemp("folders")
    logs, copy = place / "logs", place / "copy"
    copy.mkdir()
    names = PodNames(logs, copy, PollingWatch())
    for pods in looks:
        subprocess.run(["rm", "-rf", logs], check=True)
        for pod, containers in pods.items():
            (logs / pod).mkdir(parents=True)
            for container in containers:
                (logs / pod / container).mkdir()
                (logs / pod / container / "0.log").write_text("secret")
        logs.joinpath("lost+found").mkdir(parents=True)
        if restarts:
            names = PodNames(logs, copy, PollingWatch())
        names.look()
        copied = {path.split("/")[0]: path.split("/")[1:] for path in sorted(tree(copy))}
        assert copied.keys() == pods.keys()
        assert not any(path.is_file() for path in copy.rglob("*") if path.name != READY), "no log is copied"
    assert {pod for pod, containers in pods.items() if containers} <= {path.parent.name for path in copy.glob("*/*")}


def test_a_pod_counts_for_the_agent_however_late_its_container_is_copied(folders, tmp_path, told):
    """The copy may be later than the container's control group, which would have ended the agent's wait."""
    logs, copy = folders
    group = tmp_path / "kubepods" / f"pod{UIDS[0]}"
    watch = folder_watch()
    events = CgroupEvents(tmp_path, PodLogs(copy, ManualClock(), watch=watch).counted_from_container, watch=watch)
    group.mkdir(parents=True)
    names = PodNames(logs, copy, PollingWatch())
    events.start(told)
    (logs / f"jobs_pi_{UIDS[0]}").mkdir()
    names.look()
    (logs / f"jobs_pi_{UIDS[0]}" / "pi").mkdir()
    (group / "sandbox").mkdir()
    (group / "container").mkdir()
    assert told.so_far() == 0
    names.look()
    assert [change.pod for change in told.wait_for(1)] == ["jobs/pi"]
    events.close()


def test_a_folder_that_cannot_be_listed_is_a_warning_and_tried_again(folders, caplog):
    logs, copy = folders
    logs.rmdir()
    logs.write_text("no folder")
    stop, watch = threading.Event(), PollingWatch()
    thread = threading.Thread(target=PodNames(logs, copy, watch).run, args=(stop,))
    thread.start()
    while "are not copied" not in caplog.text:
        thread.join(0.01)
    logs.unlink()
    (logs / f"jobs_pi_{UIDS[0]}").mkdir(parents=True)
    while not tree(copy):
        thread.join(0.01)
    stop.set()
    watch.wake()
    thread.join(30)
    assert not thread.is_alive()


def test_as_a_process_it_copies_until_it_is_told_to_end(folders, until):
    logs, copy = folders
    command = [sys.executable, "-m", "carico.podevents"]
    wrong = subprocess.run([*command, logs, copy / "none"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "there is no folder" in wrong.stderr
    process = subprocess.Popen([*command, logs, copy])
    try:
        until((copy / READY).exists)
        (logs / f"jobs_pi_{UIDS[0]}" / "pi").mkdir(parents=True)
        until((copy / f"jobs_pi_{UIDS[0]}" / "pi").exists)
        (logs / f"jobs_pi_{UIDS[0]}" / "pi").rmdir()
        (logs / f"jobs_pi_{UIDS[0]}").rmdir()
        until(lambda: not tree(copy))
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
