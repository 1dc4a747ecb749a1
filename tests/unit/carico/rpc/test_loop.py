"""The thread that everything waits in: it says whether it runs, and can be closed when it does not."""

import asyncio
import sys
import threading

import pytest

from carico.rpc.loop import LoopThread


def test_it_is_alive_until_it_is_closed():
    loop = LoopThread("test")
    assert loop.is_alive()
    loop.close()
    loop.close()
    assert not loop.is_alive()


def test_what_blocks_takes_one_thread_however_much_there_is():
    async def threads():
        return set(await asyncio.gather(*(asyncio.to_thread(threading.get_ident) for _ in range(20))))

    loop = LoopThread("test")
    assert len(loop.run(threads())) == 1
    loop.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_one_that_has_ended_by_itself_is_not_alive_and_closes():
    loop = LoopThread("test")
    loop.call_soon(sys.exit)
    while loop.is_alive():
        pass
    loop.close()
    assert loop.closed
