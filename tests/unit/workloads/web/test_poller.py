"""The poller against real servers, good and bad: what counts as an answer, and from when a latency runs."""

import socket
import threading
from contextlib import contextmanager

import pytest

from workloads.web import server as server_module
from workloads.web.poller import NEVER_SENT, Poller, parse_url

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ndone\n"


def poll(target, **settings):
    poller = Poller(target, **{"interval_s": 0.001, "timeout_s": 5, "requests": 5} | settings)
    poller.run()
    histogram, errors = poller.results()
    return histogram, dict(errors)


@contextmanager
def scripted(*connections):
    """Serve connections one after another; each is a list of what is sent for one request after another."""

    def serve():
        for answers in connections:
            client, _ = listening.accept()
            with client:
                for answer in answers:
                    while not client.recv(65536).endswith(b"\r\n\r\n"):
                        pass
                    client.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield parse_url(f"http://127.0.0.1:{listening.getsockname()[1]}/")
        thread.join()


def test_all_requests_are_answered_over_one_connection(serve, target_of, monkeypatch):
    server = serve(service_s=0.0001)
    clients = []
    verify = server.verify_request
    monkeypatch.setattr(server, "verify_request", lambda *client: clients.append(client) or verify(*client))
    histogram, errors = poll(target_of(server, "/?a=b"), requests=50)
    assert (histogram.count, errors, len(clients)) == (50, {}, 1)
    assert 0.0001 < histogram.min <= histogram.max < 5


def test_a_duration_is_a_number_of_intervals(serve, target_of):
    histogram, errors = poll(target_of(serve()), requests=None, duration_s=0.2, interval_s=0.02)
    assert histogram.count + sum(errors.values()) == 10


def test_a_status_other_than_200_is_an_error(serve, target_of):
    histogram, errors = poll(target_of(serve(), "/nope"))
    assert (histogram.count, errors) == (0, {"status 404": 5})


def test_a_refused_connection_is_an_error(serve, target_of):
    server = serve()
    target = target_of(server)
    server.drain(0)
    histogram, errors = poll(target)
    assert (histogram.count, errors) == (0, {"refused": 5})


def test_an_answer_that_comes_too_late_is_an_error_and_not_taken_for_the_next(serve, target_of, monkeypatch):
    waits = iter([1.0, 0, 0])
    monkeypatch.setattr(server_module, "spend_cpu", lambda _: threading.Event().wait(next(waits)))
    histogram, errors = poll(target_of(serve()), timeout_s=0.5, requests=3)
    assert (histogram.count, errors) == (2, {"timed out": 1})


def test_latencies_run_from_when_a_request_was_due(serve, target_of, monkeypatch):
    # One stall of 0.2 s at the start: requests that are due in it, every 20 ms, are late by what is left of it.
    waits = iter([0.2])
    monkeypatch.setattr(server_module, "spend_cpu", lambda _: threading.Event().wait(next(waits, 0)))
    histogram, errors = poll(target_of(serve()), interval_s=0.02, requests=10)
    assert errors == {}
    assert histogram.max >= 0.2
    assert histogram.quantile(0.5) >= 0.09  # due at 0.1 s; counted from when it was sent it would be a millisecond
    assert histogram.to_dict()["sum"] >= 1000 * sum(0.2 - 0.02 * i for i in range(10))


def test_requests_that_could_not_be_sent_before_the_end_are_errors(serve, target_of, monkeypatch):
    monkeypatch.setattr(server_module, "spend_cpu", lambda _: threading.Event().wait(0.15))
    histogram, errors = poll(target_of(serve()), interval_s=0.01, requests=None, duration_s=0.1)
    assert (histogram.count, errors) == (1, {NEVER_SENT: 9})


def test_a_kept_connection_that_was_closed_is_opened_again_without_an_error():
    with scripted([ANSWER], [ANSWER, ANSWER]) as target:
        histogram, errors = poll(target, requests=3)
    assert (histogram.count, errors) == (3, {})


def test_a_server_that_closes_after_every_answer_is_polled_all_the_same():
    closing = ANSWER.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with scripted([closing], [closing]) as target:
        histogram, errors = poll(target, requests=2)
    assert (histogram.count, errors) == (2, {})


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "connection lost"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\ndone\n", "connection lost"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndone\n", "connection lost"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "no HTTP answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n", "no HTTP answer"),
        (b"HTTP/1.1 301 Moved\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", "status 301"),
    ],
)
def test_answers_that_are_none(answer, reason):
    with scripted([answer], [ANSWER]) as target:
        histogram, errors = poll(target, requests=2)
    assert (histogram.count, errors) == (1, {reason: 1})


def test_an_answer_that_never_ends_is_timed_out():
    def drip():
        client, _ = listening.accept()
        with client:
            client.recv(65536)
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            try:
                while True:
                    client.sendall(b"x")
            except OSError:
                pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip)
        thread.start()
        target = parse_url(f"http://127.0.0.1:{listening.getsockname()[1]}/")
        assert poll(target, timeout_s=0.1, requests=1)[1] == {"timed out": 1}
        thread.join()


def test_a_server_that_goes_in_the_middle_leaves_what_was_measured(serve, target_of, until):
    server = serve()
    poller = Poller(target_of(server), interval_s=0.006, timeout_s=5, duration_s=0.6)
    polling = threading.Thread(target=poller.run)
    polling.start()
    until(lambda: poller.results()[0].count)
    server.drain(1)
    polling.join()
    histogram, errors = poller.results()
    assert histogram.count >= 1
    assert errors["refused"] >= 1
    assert histogram.count + errors.total() == 100


@pytest.mark.parametrize(
    ("text", "host", "port", "path"),
    [
        ("http://localhost", "localhost", 80, "/"),
        ("http://10.0.0.1:8080/a/b?c=d&e", "10.0.0.1", 8080, "/a/b?c=d&e"),
        ("http://[::1]:8080?x", "::1", 8080, "/?x"),
        ("HTTP://web.default.svc/", "web.default.svc", 80, "/"),
    ],
)
def test_addresses(text, host, port, path):
    assert parse_url(text) == (text, host, port, path)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "localhost:8080",
            "/",
            "https://localhost/",
            "ftp://localhost/",
            "http://",
            "http:///path",
            "http://:80/",
        ),
        *("http://localhost:port/", "http://localhost:65536/", "http://me:secret@localhost/", "http://[::1/"),
        *(
            "http://a..b/",
            f"http://{'a' * 64}/",
            "http://localhost/a b",
            "http://localhost/ä",
            "http://localhost/\r\nX: y",
        ),
        *("http://localhost/\0", "http://\ud800/", "http://localhost\t/"),
    ],
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError, match="is not an address"):
        parse_url(text)
