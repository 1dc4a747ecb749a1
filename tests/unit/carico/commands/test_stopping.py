"""How a process is asked to end."""

import signal
import threading

import pytest

from carico.commands.stopping import stop_signal


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_wait_that_it_does_not_interrupt(number):
    """A signal may come just before the main thread begins to wait, or to another thread: here it does."""

    def signal_oneself():
        signal.pthread_kill(threading.get_ident(), number)

    with stop_signal() as stop:
        threading.Timer(0.01, signal_oneself).start()
        assert stop.wait(10)


def test_afterwards_signals_do_what_they_did_before():
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    threads = threading.active_count()
    with stop_signal() as stop:
        assert not stop.is_set()
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == handlers
    assert threading.active_count() == threads
