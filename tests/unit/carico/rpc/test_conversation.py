"""gRPC as an agent speaks it: to gRPC's own server, and to servers that do not do as they should."""

import asyncio
from concurrent import futures

import grpc
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived
from h2.settings import SettingCodes

from carico.rpc.conversation import CallFailed, Conversation
from carico.rpc.messages import MAX_MESSAGE_BYTES

ECHO, ECHOES = "/test.Echo/Call", "/test.Echo/Stream"


@pytest.fixture(scope="module")
def echo():
    """A server of gRPC's own that answers every message with itself, and refuses empty ones; the address."""

    def answer(message, call):
        if not message:
            call.abort(grpc.StatusCode.INVALID_ARGUMENT, "empty: 100 % nothing")
        return message

    handlers = {
        "Call": grpc.unary_unary_rpc_method_handler(answer),
        "Stream": grpc.stream_stream_rpc_method_handler(lambda messages, call: (answer(m, call) for m in messages)),
    }
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


def conversing(target, ask):
    """Return what `ask`, given a conversation with the server there, returns."""

    async def run():
        conversation = await Conversation.to(target, None)
        try:
            return await ask(conversation)
        finally:
            conversation.close()

    return asyncio.run(asyncio.wait_for(run(), 10))


def failure(target, method=ECHOES, message=b"x"):
    with pytest.raises(CallFailed) as failed:
        conversing(target, lambda conversation: conversation.ask(method, message))
    return failed.value.status, failed.value.details


class TestWithGrpcsOwnServer:
    def test_answers_come_in_turn_over_one_stream(self, echo):
        async def ask(conversation):
            return [await conversation.ask(ECHOES, b"%d" % number) for number in range(50)]

        assert conversing(echo, ask) == [b"%d" % number for number in range(50)]

    def test_a_method_without_streams_wants_each_message_to_be_the_last(self, echo):
        async def ask(conversation):
            return [await conversation.ask(ECHO, b"%d" % number, last=True) for number in range(50)]

        assert conversing(echo, ask) == [b"%d" % number for number in range(50)]

    def test_the_largest_message_is_more_than_a_frame_and_a_window_hold(self, echo):
        largest = bytes(range(256)) * (MAX_MESSAGE_BYTES // 256)

        async def ask(conversation):
            return [await conversation.ask(ECHOES, largest) for _ in range(5)]

        assert conversing(echo, ask) == [largest] * 5

    def test_a_refusal_says_why_and_the_next_message_begins_anew(self, echo):
        async def ask(conversation):
            with pytest.raises(CallFailed) as failed:
                await conversation.ask(ECHOES, b"")
            return failed.value.status, failed.value.details, await conversation.ask(ECHOES, b"x")

        assert conversing(echo, ask) == ("INVALID_ARGUMENT", "empty: 100 % nothing", b"x")

    def test_a_method_that_is_not_there(self, echo):
        assert failure(echo, "/test.Echo/Other")[0] == "UNIMPLEMENTED"

    def test_an_answer_that_is_no_longer_waited_for_is_not_the_next_ones(self, echo):
        async def ask(conversation):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await conversation.ask(ECHOES, b"first")
            conversation.end_stream()
            return await conversation.ask(ECHOES, b"second")

        assert conversing(echo, ask) == b"second"


def served_by(answer, settings=None):
    """Return how asking a server fails that answers as `answer(http, stream)` does, or closes every connection."""

    async def serve(reader, writer):
        http = H2Connection(H2Configuration(client_side=False))
        if answer is not None:
            http.initiate_connection()
            http.update_settings(settings or {})
            writer.write(http.data_to_send())
            while data := await reader.read(65536):
                for event in http.receive_data(data):
                    if isinstance(event, DataReceived):
                        answer(http, event.stream_id)
                writer.write(http.data_to_send())
        writer.close()

    async def run():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            host, port = server.sockets[0].getsockname()
            conversation = await Conversation.to(f"{host}:{port}", None)
            try:
                while settings and not conversation.greeted:
                    await asyncio.sleep(0)
                with pytest.raises(CallFailed) as failed:
                    await conversation.ask(ECHOES, b"x")
                assert conversation.over or failed.value.status != "INTERNAL"
                return failed.value.status, failed.value.details
            finally:
                conversation.close()

    return asyncio.run(asyncio.wait_for(run(), 10))


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
        (answering(b"", [*HEADERS, ("grpc-status", "99")]), "UNKNOWN", ""),
        (answering(b"", [*HEADERS, ("grpc-status", "none")]), "INTERNAL", "this is no gRPC"),
        (lambda http, stream: http.send_headers(stream, HEADERS, end_stream=True), "UNAVAILABLE", "ended the stream"),
        (
            lambda http, stream: http.send_headers(stream, [(":status", "200"), ("grpc-message", b"\xff")]),
            "INTERNAL",
            "",
        ),
        (lambda http, stream: http.reset_stream(stream), "UNAVAILABLE", "ended the stream"),
        (lambda http, stream: http.close_connection(), "UNAVAILABLE", "ended the connection"),
    ],
)
def test_a_server_that_does_not_do_as_it_should(answer, status, details):
    seen = served_by(answer)
    assert seen[0] == status
    assert details in seen[1]


def test_a_server_that_takes_no_stream():
    status, details = served_by(lambda http, stream: None, {SettingCodes.MAX_CONCURRENT_STREAMS: 0})
    assert (status, "Max outbound streams is 0" in details) == ("INTERNAL", True)


def test_nothing_can_be_asked_once_it_is_over(echo):
    async def ask(conversation):
        conversation.close()
        assert conversation.over
        with pytest.raises(CallFailed, match="UNAVAILABLE"):
            await conversation.ask(ECHOES, b"x")

    conversing(echo, ask)


def test_nobody_listens():
    with pytest.raises(OSError, match="Connect call failed"):
        conversing("127.0.0.1:1", None)
