"""A thread with an event loop: everything that waits for another process waits there, at the cost of one thread.

Host names are looked up in a second thread, which starts at the first look-up, because a look-up blocks its thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self, TypeVar

_T = TypeVar("_T")


class LoopThread:
    """Runs coroutines until it is closed.

    Parameters
    ----------
    name : str
        The thread's name.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        # By default asyncio would start up to six threads for calls that block.
        self._loop.set_default_executor(ThreadPoolExecutor(1, f"{name}-names"))
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def closed(self) -> bool:
        """Whether the loop is closed, so that nothing can run any more."""
        return self._loop.is_closed()

    def is_alive(self) -> bool:
        """Return whether the thread runs."""
        return self._thread.is_alive()

    def call_soon(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function in the loop's thread; may be used from any thread and returns at once."""
        self._loop.call_soon_threadsafe(function, *arguments)

    def start(self, what: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Start a coroutine and return its future; may be used from any thread."""
        return asyncio.run_coroutine_threadsafe(what, self._loop)

    def run(self, what: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine to its end and return its result; not to be used from the loop's own thread."""
        return self.start(what).result()

    def close(self) -> None:
        """Cancel the coroutines that still run, and return when they have ended; closing twice is fine."""
        if self.closed:
            return
        if self.is_alive():
            self.run(_cancel_others())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
