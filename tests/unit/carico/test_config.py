"""Configuration files: errors name the file, the line and the field."""

from contextlib import suppress
from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from carico.config import Address, HttpLimits, LogConfig, PodEventsConfig, StatusConfig, TlsFiles, read_config
from carico.errors import InvalidConfig


class Example(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rate: Annotated[float, Meta(gt=0)] = 1.0
    server: Address = "localhost:1"
    status: StatusConfig = StatusConfig()
    logs: LogConfig = LogConfig()
    pods: PodEventsConfig = PodEventsConfig()
    limits: HttpLimits = HttpLimits()
    tls: TlsFiles | None = None


@pytest.fixture
def read(tmp_path):
    def run(content):
        file = tmp_path / "agent.yaml"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_config(file, Example)

    return run


@pytest.mark.parametrize("content", ["", "# nothing yet\n", "{}"])
def test_an_empty_file_gives_the_defaults(read, content):
    assert read(content) == Example()


def test_values_in_the_file_replace_defaults(read):
    found = read("rate: 2\nserver: '[::1]:50051'\nstatus: {port: 8080}\nlogs: {format: json}\n")
    assert (found.rate, found.server, found.status.port, found.logs.format) == (2.0, "[::1]:50051", 8080, "json")
    assert found.status.host == "127.0.0.1"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("rate: -1", r"agent.yaml: line 1: rate: Expected `float` > 0.0"),
        (
            "rats: 1",
            "agent.yaml: line 1: there is no field 'rats', did you mean 'rate'\\? Known: rate, server, status, .*tls",
        ),
        ("status: {port: 70000}", "line 1: status.port: Expected `int` <= 65535"),
        ("logs: {format: xml}", "line 1: logs.format: there is no value 'xml'; known: json, text"),
        ("pods: {source: docker}", "pods.source: there is no value 'docker'; known: cgroup, containerd"),
        ("limits: {body_bytes: 50000000}", "at least body_bytes, got 33554432 and 50000000: raise the one or lower"),
        ("tls: {certificate: a}", "line 1: tls: Object missing required field `key`"),
        ("server: somewhere", "line 1: server: Expected `str` host:port"),
        ("server: 'a:65536'", "line 1: server: Expected `str` host:port"),
        ("server: 'a:b:1'", "line 1: server: Expected `str` host:port"),
        ("rats: 1", r"all fields: python -m pydoc carico\.config\.Example"),
        ("- 1", "agent.yaml: line 1: Expected `object`, got `array`"),
        ("rate: [1", "agent.yaml is not YAML"),
        ("rate: 1\nlogs: !!int ''", r"agent.yaml is not YAML: the value does not have the type '.*:int', line 2"),
        ("rate: !!timestamp x", r"agent.yaml is not YAML: the value does not have the type '.*:timestamp', line 1"),
        ("rate: 2024-13-01", r"agent.yaml is not YAML: the value does not have the type '.*:timestamp', line 1"),
        (b"\xff\xfe\x00", "agent.yaml"),
        (r'rate: "\UFFFFFFFF"', r"agent.yaml is not YAML: an escape stands for no character, line 1"),
        ("rate: 1\nrate: 2", r"agent.yaml is not YAML: the key 'rate' occurs twice, line 2"),
        ("pods: {pattern: x, pattern: y}", r"agent.yaml is not YAML: the key 'pattern' occurs twice, line 1"),
        ("a: &a 1\nrate: *a", r"agent.yaml is not YAML: the alias \*a is not accepted, write out what it .* line 2"),
    ],
)
def test_the_message_names_file_line_and_field(read, content, message):
    with pytest.raises(InvalidConfig, match=message):
        read(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("rate: 2\nstatus:\n  port: 1\n  hots: a\n", "line 4: status: there is no field 'hots', did you mean 'host'"),
        ("pods:\n  source: cgruop\n", "line 2: pods.source: there is no value 'cgruop', did you mean 'cgroup'"),
        ("pods:\n  excluded_namespaces:\n  - a\n  - 1\n", r"line 4: pods.excluded_namespaces\[1\]: Expected `str`"),
        ("tls:\n  ca: a\n  keyy: b\n  certificate: c\n", "line 3: tls: there is no field 'keyy', did you mean 'key'"),
        (
            "rate: 1\n\npods: {<<: {sourec: processes}}",
            "line 3: pods: there is no field 'sourec', did you mean 'source'",
        ),
    ],
)
def test_the_message_says_where_it_is_and_what_was_meant(read, content, message):
    with pytest.raises(InvalidConfig, match=f"agent.yaml: {message}"):
        read(content)


def test_aliases_that_stand_for_billions_of_values_are_refused_at_once(read):
    levels = "".join(f"- &l{level} [{', '.join([f'*l{level - 1}'] * 9)}]\n" for level in range(1, 12))
    with pytest.raises(InvalidConfig, match=r"the alias \*l0 is not accepted"):
        read(f"- &l0 lol\n{levels}")


@pytest.mark.parametrize("content", ["rate: &rate 2", "pods: {<<: {pattern: x}, source: processes}"])
def test_anchors_and_merges_without_an_alias_do_no_harm(read, content):
    assert isinstance(read(content), Example)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InvalidConfig, match=r"cannot read the configuration .*nowhere.yaml"):
        read_config(tmp_path / "nowhere.yaml", Example)


@given(content=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused(tmp_path_factory, content):
    file = tmp_path_factory.mktemp("config") / "agent.yaml"
    file.write_bytes(content)
    with suppress(InvalidConfig):
        assert isinstance(read_config(file, Example), Example)


@pytest.mark.parametrize("content", [r'{server: "\ud800:1"}', r'{"\ud800": 1}'])
def test_half_of_a_character_is_refused(read, content):
    """YAML, like JSON, can write half of a pair of surrogates, which is no text."""
    with pytest.raises(InvalidConfig, match=r"agent\.yaml: .*surrogates"):
        read(content)
