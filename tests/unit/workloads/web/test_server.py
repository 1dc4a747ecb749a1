"""The server over real sockets: what it answers, what it costs, and that no connection holds up the others."""

import contextlib
import http.client
import socket
import threading
import time

import pytest

from workloads.web import server as server_module


def get(server, path="/", method="GET", **headers):
    connection = http.client.HTTPConnection(*server.server_address, timeout=10)
    with contextlib.closing(connection):
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read()


def raw(server, *pieces):
    """Send bytes and return all that comes until the server closes."""
    with socket.create_connection(server.server_address, timeout=10) as client:
        for piece in pieces:
            client.sendall(piece)
        received = b""
        while chunk := client.recv(65536):
            received += chunk
    return received


def test_pages(serve):
    server = serve()
    assert get(server) == (200, b"done\n")
    assert get(server, "/?any=query") == (200, b"done\n")
    assert get(server, "/healthz") == (200, b"ok\n")
    assert get(server, "/nope") == (404, b"there are / and /healthz\n")
    assert get(server, method="POST")[0] == 501


def test_a_request_costs_its_cpu_time_and_a_health_check_none(serve, monkeypatch):
    spent = []
    monkeypatch.setattr(server_module, "spend_cpu", lambda until_cpu_s: spent.append(until_cpu_s - time.thread_time()))
    server = serve(service_s=0.5)
    get(server, "/healthz")
    assert spent == []
    get(server)
    assert spent == pytest.approx([0.5], abs=0.01)


def test_a_connection_is_kept(serve):
    server = serve()
    connection = http.client.HTTPConnection(*server.server_address, timeout=10)
    connection.connect()
    kept = connection.sock
    for _ in range(3):
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"done\n"
        assert connection.sock is kept
    connection.close()


def test_requests_sent_at_once_are_answered_in_order(serve):
    answer = raw(serve(), b"GET /healthz HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert answer.index(b"ok\n") < answer.index(b"done\n")


def test_a_body_is_not_taken_for_a_request(serve):
    answer = raw(serve(), b"GET / HTTP/1.1\r\nContent-Length: 29\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n....")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close" in answer


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b" 400 "),  # TLS
        (b"what is this\r\n\r\n", b" 400 "),
        (b"GET / HTTP/9.9\r\n\r\n", b" 505 "),
        (b"GET /" + b"x" * 70_000, b" 414 "),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200, b" 431 "),
        (b"\r\n\r\n", b""),
    ],
)
def test_garbage_is_refused_and_the_next_one_served(serve, request_, status, capfd):
    server = serve()
    with contextlib.suppress(ConnectionResetError):  # it may close before it has read all, which is a refusal, too
        assert status in raw(server, request_)
    assert get(server) == (200, b"done\n")
    assert capfd.readouterr().err == ""


def test_clients_that_send_nothing_hold_up_nobody_and_are_closed(serve, monkeypatch):
    monkeypatch.setattr(server_module._Handler, "timeout", 0.2)
    server = serve(threads=1)
    clients = [socket.create_connection(server.server_address, timeout=10) for _ in range(5)]
    clients[0].sendall(b"GET / HTTP/1.1\r\nHos")
    assert get(server) == (200, b"done\n")
    for client in clients:
        assert client.recv(1) == b""
        client.close()


def test_connections_are_limited_and_their_places_given_back(serve, monkeypatch, until):
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 1)
    server = serve()
    with socket.create_connection(server.server_address, timeout=10) as first:
        first.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert first.recv(1)
        with pytest.raises(ConnectionError):
            get(server)

    def served():
        with contextlib.suppress(ConnectionError):
            return get(server) == (200, b"done\n")

    until(served)


def test_a_connection_without_a_thread_gives_its_place_back(serve, monkeypatch, capfd):
    def none_left(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 1)
    server = serve()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none_left)
        with pytest.raises(ConnectionError):
            get(server)
    assert get(server) == (200, b"done\n")
    assert "can't start new thread" in capfd.readouterr().err


def test_only_so_many_requests_are_worked_on_at_a_time(serve, monkeypatch):
    entered, leave = threading.Semaphore(0), threading.Event()
    busy = []

    def work(_until_cpu_s):
        busy.append(1)
        entered.release()
        assert leave.wait(10)

    monkeypatch.setattr(server_module, "spend_cpu", work)
    server = serve(threads=2)
    answers = []
    clients = [threading.Thread(target=lambda: answers.append(get(server))) for _ in range(3)]
    for client in clients:
        client.start()
    for _ in range(2):
        assert entered.acquire(timeout=10)
    assert get(server, "/healthz") == (200, b"ok\n")  # not held up
    assert len(busy) == 2
    leave.set()
    for client in clients:
        client.join()
    assert answers == [(200, b"done\n")] * 3


def test_requests_in_flight_are_finished_before_it_ends(serve, monkeypatch):
    entered, leave = threading.Event(), threading.Event()
    monkeypatch.setattr(server_module, "spend_cpu", lambda _: (entered.set(), leave.wait(10)))
    server = serve()
    answers, unfinished = [], []
    client = threading.Thread(target=lambda: answers.append(get(server)))
    client.start()
    assert entered.wait(10)
    assert server.drain(0) == 1
    drain = threading.Thread(target=lambda: unfinished.append(server.drain(10)))
    drain.start()
    leave.set()
    client.join()
    drain.join()
    assert (answers, unfinished) == ([(200, b"done\n")], [0])
    with pytest.raises(ConnectionRefusedError):
        get(server)


def test_a_client_that_leaves_is_no_error(serve, monkeypatch, capfd):
    entered, leave = threading.Event(), threading.Event()
    monkeypatch.setattr(server_module, "spend_cpu", lambda _: (entered.set(), leave.wait(10)))
    server = serve()
    client = socket.create_connection(server.server_address, timeout=10)
    client.sendall(b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n")
    assert entered.wait(10)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # closes with a reset
    client.close()
    leave.set()
    assert server.drain(10) == 0
    assert capfd.readouterr().err == ""
