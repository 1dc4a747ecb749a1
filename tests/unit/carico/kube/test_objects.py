"""Calls on objects of any kind over real HTTP."""

import pytest

from carico.errors import KubeRefused
from carico.kube.objects import KubeObjects
from carico.testing import ManualClock

SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}}


@pytest.fixture
def clock():
    return ManualClock(100.0)


@pytest.fixture
def objects(client, clock):
    return KubeObjects(client, clock)


@pytest.mark.parametrize("of", ["apply", "list"])
def test_what_the_server_is_too_busy_for_is_tried_again(objects, server, clock, of):
    server.statuses = [429, 429, 429]
    if of == "apply":
        objects.apply(SETTINGS)
    assert [each["metadata"]["name"] for each in objects.list("v1", "ConfigMap")] == ["settings"] * (of == "apply")
    assert clock.now() == 103.0


def test_a_server_that_stays_too_busy_is_an_error_after_half_a_minute(objects, server, clock):
    server.statuses = [429] * 100
    with pytest.raises(KubeRefused, match="429"):
        objects.apply(SETTINGS)
    assert 129 < clock.now() < 132


def test_no_other_refusal_is_tried_again(objects, server, clock):
    server.statuses = [503]
    with pytest.raises(KubeRefused, match="503"):
        objects.apply(SETTINGS)
    assert clock.now() == 100.0
