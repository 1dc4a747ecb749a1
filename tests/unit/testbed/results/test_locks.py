"""Locks between processes: one holder at a time, and none that outlives its process."""

import os
import pickle
import signal
import threading

import pytest

from testbed.errors import ResultsError
from testbed.results.locks import Presence, locked


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


def test_several_may_be_at_work(tmp_path):
    first, second = (Presence(tmp_path / "processes") for _ in range(2))
    assert not first.is_anyones
    for one in (first, second, first):
        one.enter()
    first.leave()
    assert (first.is_mine, first.is_anyones) == (False, True)
    second.leave()
    assert not first.is_anyones
    assert not list(first.folder.iterdir())


def test_a_killed_process_is_at_work_no_longer(tmp_path):
    presence = Presence(tmp_path / "processes")
    if (child := os.fork()) == 0:
        presence.enter()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(list(presence.folder.iterdir())) == 1
    assert not presence.is_anyones


def test_a_copy_for_another_process_has_not_entered(tmp_path):
    presence = Presence(tmp_path / "processes")
    presence.enter()
    copy = pickle.loads(pickle.dumps(presence))
    assert (copy.is_mine, copy.is_anyones) == (False, True)
    presence.leave()
