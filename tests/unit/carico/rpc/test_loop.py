"""The thread that everything waits in: it says whether it runs, and can be closed when it does not."""

import sys

import pytest

from carico.rpc.loop import LoopThread


def test_it_is_alive_until_it_is_closed():
    loop = LoopThread("test")
    assert loop.is_alive()
    loop.close()
    loop.close()
    assert not loop.is_alive()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_one_that_has_ended_by_itself_is_not_alive_and_closes():
    loop = LoopThread("test")
    loop.call_soon(sys.exit)
    while loop.is_alive():
        pass
    loop.close()
    assert loop.closed
