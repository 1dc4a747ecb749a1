"""Locks between processes: one holder at a time, and none that outlives its process."""

import os
import pickle
import signal
import threading

import pytest

from testbed.errors import ResultsError
from testbed.results.locks import ActiveProcesses, locked


def test_a_lock_is_waited_for(tmp_path):
    order, waits = [], threading.Event()

    def second():
        waits.set()
        with locked(tmp_path / "lock"):
            order.append("second")

    thread = threading.Thread(target=second)
    with locked(tmp_path / "lock"):
        thread.start()
        assert waits.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_a_lock_in_a_folder_that_is_gone_is_an_error(tmp_path):
    with (
        pytest.raises(ResultsError, match=r"No such file or directory; has the folder been removed\?"),
        locked(tmp_path / "gone" / "lock"),
    ):
        pass
    assert not (tmp_path / "gone").exists()


def test_several_processes_may_be_active(tmp_path):
    first, second = (ActiveProcesses(tmp_path / "processes") for _ in range(2))
    assert not first.any_active
    for one in (first, second, first):
        one.join()
    first.leave()
    assert (first.joined, first.any_active) == (False, True)
    second.leave()
    assert not first.any_active
    assert not list(first.folder.iterdir())


def test_a_killed_process_is_not_active(tmp_path):
    processes = ActiveProcesses(tmp_path / "processes")
    if (child := os.fork()) == 0:
        processes.join()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(list(processes.folder.iterdir())) == 1
    assert not processes.any_active


def test_a_copy_for_another_process_has_not_joined(tmp_path):
    processes = ActiveProcesses(tmp_path / "processes")
    processes.join()
    copy = pickle.loads(pickle.dumps(processes))
    assert (copy.joined, copy.any_active) == (False, True)
    processes.leave()
