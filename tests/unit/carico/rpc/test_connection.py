"""gRPC as an agent speaks it: to gRPC's own server, and to servers that do not do as they should."""

import asyncio
from concurrent import futures
from contextlib import contextmanager, suppress

import grpc
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived
from h2.settings import SettingCodes
from hypothesis import given
from hypothesis import strategies as st

from carico.rpc.connecting import connect
from carico.rpc.connection import CallFailed, Connection
from carico.rpc.messages import MAX_MESSAGE_BYTES

ECHO, ECHOES = "/test.Echo/Call", "/test.Echo/Stream"


@contextmanager
def echoing(answers):
    """Serve a method with one answer and one with a stream of them, with gRPC's own server; yields the address."""
    handlers = {
        "Call": grpc.unary_unary_rpc_method_handler(lambda message, call: next(answers(iter([message]), call))),
        "Stream": grpc.stream_stream_rpc_method_handler(answers),
    }
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None)


@pytest.fixture(scope="module")
def echo():
    """A server that answers every message with itself, and refuses empty ones; the address."""

    def answers(messages, call):
        for message in messages:
            if not message:
                call.abort(grpc.StatusCode.INVALID_ARGUMENT, "empty: 100 % nothing")
            yield message

    with echoing(answers) as target:
        yield target


def requesting(target, ask):
    """Return what `ask`, given a connection to the server there, returns."""

    async def run():
        connection = await connect(target, None, 5.0)
        try:
            return await ask(connection)
        finally:
            connection.close()

    return asyncio.run(asyncio.wait_for(run(), 10))


def failure(target, method=ECHOES, message=b"x"):
    with pytest.raises(CallFailed) as failed:
        requesting(target, lambda connection: connection.request(method, message))
    return failed.value.status, failed.value.details


class TestWithGrpcsOwnServer:
    def test_answers_come_in_turn_over_one_stream(self, echo):
        async def ask(connection):
            return [await connection.request(ECHOES, b"%d" % number) for number in range(50)]

        assert requesting(echo, ask) == [b"%d" % number for number in range(50)]

    def test_a_method_without_streams_wants_each_message_to_be_the_last(self, echo):
        async def ask(connection):
            return [await connection.request(ECHO, b"%d" % number, last=True) for number in range(50)]

        assert requesting(echo, ask) == [b"%d" % number for number in range(50)]

    def test_the_largest_message_is_more_than_a_frame_and_a_window_hold(self, echo):
        largest = bytes(range(256)) * (MAX_MESSAGE_BYTES // 256)

        async def ask(connection):
            return [await connection.request(ECHOES, largest) for _ in range(5)]

        assert requesting(echo, ask) == [largest] * 5

    def test_a_refusal_says_why_and_the_next_message_begins_anew(self, echo):
        async def ask(connection):
            with pytest.raises(CallFailed) as failed:
                await connection.request(ECHOES, b"")
            return failed.value.status, failed.value.details, await connection.request(ECHOES, b"x")

        assert requesting(echo, ask) == ("INVALID_ARGUMENT", "empty: 100 % nothing", b"x")

    def test_a_method_that_is_not_there(self, echo):
        assert failure(echo, "/test.Echo/Other")[0] == "UNIMPLEMENTED"

    def test_an_answer_that_is_no_longer_waited_for_is_not_the_next_ones(self, echo):
        async def ask(connection):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await connection.request(ECHOES, b"first")
            return await connection.request(ECHOES, b"second")

        assert requesting(echo, ask) == b"second"


class TestMessagesThatAreNotAnswered:
    def test_go_over_a_stream_that_is_open_as_long_as_there_is_room(self):
        heard = []

        def answer(messages, call):
            for message in messages:
                heard.append(message)
                if len(message) < MAX_MESSAGE_BYTES:
                    yield message

        async def ask(connection):
            assert not connection.send(b"no stream")
            assert await connection.request(ECHOES, b"1") == b"1"
            told = 0
            while connection.send(large):
                told += 1
            # The rest of the last one goes with the next question.
            assert await connection.request(ECHOES, b"2") == b"2"
            connection.close()
            assert not connection.send(b"closed")
            return told

        large = bytes(MAX_MESSAGE_BYTES)
        with echoing(answer) as target:
            told = requesting(target, ask)
        assert told > 0
        assert heard == [b"1", *[large] * told, b"2"]

    def test_break_off_nothing_but_a_connection_that_has_ended(self):
        async def ask(connection):
            await connection.request(ECHOES, b"x")
            connection._http.close_connection()  # as h2 sees one that the other side has ended
            return connection.send(b"y"), connection.closed

        with echoing(lambda messages, call: messages) as target:
            assert requesting(target, ask) == (False, True)


def at_a_server(answer, ask, settings=None):
    """Return what `ask` returns at a server that answers as `answer(http, stream)` does, or closes every connection.

    What `answer` returns is sent after all else.
    """

    async def serve(reader, writer):
        http = H2Connection(H2Configuration(client_side=False))
        if answer is not None:
            http.initiate_connection()
            http.update_settings(settings or {})
            writer.write(http.data_to_send())
            while data := await reader.read(65536):
                rest = b""
                for event in http.receive_data(data):
                    if isinstance(event, DataReceived):
                        rest = answer(http, event.stream_id) or b""
                writer.write(http.data_to_send() + rest)
        writer.close()

    async def run():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            host, port = server.sockets[0].getsockname()
            connection = await connect(f"{host}:{port}", None, 5.0)
            try:
                while settings and not connection.greeted:
                    await asyncio.sleep(0)
                return await ask(connection)
            finally:
                connection.close()

    return asyncio.run(asyncio.wait_for(run(), 10))


def served_by(answer, settings=None):
    """Return how asking such a server fails."""

    async def ask(connection):
        with pytest.raises(CallFailed) as failed:
            await connection.request(ECHOES, b"x")
        assert connection.closed or failed.value.status != "INTERNAL" or "without an answer" in failed.value.details
        return failed.value.status, failed.value.details

    return at_a_server(answer, ask, settings)


HEADERS = [(":status", "200"), ("content-type", "application/grpc")]


def answering(message, headers=HEADERS):
    def answer(http, stream):
        http.send_headers(stream, headers)
        http.send_data(stream, message)

    return answer


@pytest.mark.parametrize(
    ("answer", "status", "details"),
    [
        (None, "UNAVAILABLE", "the connection was "),
        (answering((1).to_bytes(1, "big") + bytes(4)), "INTERNAL", "plain ones of at most 65536"),
        (answering(bytes(1) + b"\xff" * 4), "INTERNAL", "an answer of 4294967295 bytes"),
        (answering(b"", [(":status", "503")]), "UNKNOWN", "HTTP status 503"),
        (answering(b"", [(":status", "403")]), "PERMISSION_DENIED", "HTTP status 403"),
        (answering(b"", [*HEADERS, ("grpc-status", "0")]), "INTERNAL", "without an answer"),
        (answering(b"", [*HEADERS, ("grpc-status", "99")]), "UNKNOWN", ""),
        (answering(b"", [*HEADERS, ("grpc-status", "none")]), "INTERNAL", "this is not gRPC"),
        (lambda http, stream: http.send_headers(stream, HEADERS, end_stream=True), "UNAVAILABLE", "ended the stream"),
        (
            lambda http, stream: http.send_headers(stream, [(":status", "200"), ("grpc-message", b"\xff")]),
            "INTERNAL",
            "",
        ),
        (lambda http, stream: http.reset_stream(stream), "UNAVAILABLE", "ended the stream"),
        (lambda http, stream: http.close_connection(), "UNAVAILABLE", "ended the connection"),
        (lambda http, stream: http.close_connection(additional_data=b"max_age"), "UNAVAILABLE", "connection: max_age"),
    ],
)
def test_a_server_that_does_not_do_as_it_should(answer, status, details):
    seen = served_by(answer)
    assert seen[0] == status
    assert details in seen[1]


def test_an_answer_that_comes_with_the_end_of_the_connection_counts():
    """As gRPC's servers end one that is old: more frames follow, of which h2 takes none."""

    def answer(http, stream):
        http.send_headers(stream, HEADERS)
        http.send_data(stream, bytes(4) + b"\x01x")
        rest = H2Connection(H2Configuration(client_side=False))
        rest.initiate_connection()
        rest.clear_outbound_data_buffer()
        rest.ping(bytes(8))
        http.close_connection()
        return rest.data_to_send()

    async def ask(connection):
        answered = await connection.request(ECHOES, b"x")
        while not connection.closed:
            await asyncio.sleep(0)
        return answered

    assert at_a_server(answer, ask) == b"x"


def test_a_second_answer_is_not_the_next_ones():
    def answer(http, stream):
        http.send_headers(stream, HEADERS)
        http.send_data(stream, 2 * (bytes(4) + b"\x01x"))

    async def ask(connection):
        assert await connection.request(ECHOES, b"x") == b"x"
        assert connection.closed
        with pytest.raises(CallFailed, match="UNAVAILABLE"):
            await connection.request(ECHOES, b"y")

    at_a_server(answer, ask)


def test_a_server_of_another_protocol_is_told_at_once():
    async def serve(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    async def run():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            connection = await connect(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", None, 5.0)
            with pytest.raises(CallFailed, match="this is not gRPC over HTTP/2: a frame of 4740180 bytes"):
                await connection.request(ECHOES, b"x")
            assert connection.closed

    asyncio.run(asyncio.wait_for(run(), 10))


def test_a_server_that_takes_no_stream():
    status, details = served_by(lambda http, stream: None, {SettingCodes.MAX_CONCURRENT_STREAMS: 0})
    assert (status, "Max outbound streams is 0" in details) == ("INTERNAL", True)


class Wire(asyncio.Transport):
    """What is sent over it, and nothing else."""

    def __init__(self):
        super().__init__()
        self.sent = b""

    def write(self, data):
        self.sent += data

    def abort(self):
        pass


async def answered():
    """Return a connection, what it asks, and the server that has its answer to send."""
    connection, wire = Connection("server:1", "http"), Wire()
    connection.connection_made(wire)
    asked = asyncio.ensure_future(connection.request(ECHOES, b"x"))
    await asyncio.sleep(0)
    http = H2Connection(H2Configuration(client_side=False))
    http.initiate_connection()
    http.receive_data(wire.sent)
    http.send_headers(1, HEADERS)
    http.send_data(1, bytes(4) + b"\x01x")
    return connection, asked, http


@given(data=st.data())
def test_whatever_a_server_sends_is_an_answer_or_a_failure(data):
    async def run():
        connection, asked, http = await answered()
        http.send_headers(1, [("grpc-status", "0")], end_stream=True)
        said = http.data_to_send()
        first = data.draw(st.integers(0, len(said)))
        last = data.draw(st.integers(first, min(first + 40, len(said))))
        connection.data_received(said[:first] + data.draw(st.binary(max_size=40)) + said[last:])
        connection.connection_lost(None)
        with suppress(CallFailed):
            await asked
        assert connection.closed

    asyncio.run(run())


def test_an_answer_that_comes_as_it_is_given_up_ends_nothing():
    async def run():
        connection, asked, http = await answered()
        asked.cancel()
        connection.data_received(http.data_to_send())
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert not connection.closed

    asyncio.run(run())


def test_a_closed_connection_takes_no_request(echo):
    async def ask(connection):
        connection.close()
        assert connection.closed
        with pytest.raises(CallFailed, match="UNAVAILABLE"):
            await connection.request(ECHOES, b"x")

    requesting(echo, ask)


def test_a_port_without_a_server():
    with pytest.raises(OSError, match="Connect call failed"):
        requesting("127.0.0.1:1", None)
