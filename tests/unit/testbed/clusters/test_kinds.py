"""Kinds of cluster by name, and their settings before anything runs."""

import pytest

from testbed.clusters.kinds import PROVIDERS, check_settings, provider_named
from testbed.clusters.wishes import Wishes
from testbed.errors import InvalidSetting, UsageError


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_kind_that_is_listed_exists(name):
    assert provider_named(name, Wishes("run")).name == name
    check_settings(name, {})


def test_an_unknown_kind_lists_the_known_ones():
    with pytest.raises(UsageError, match="no provider is named 'cloud'; known: simulated"):
        provider_named("cloud", Wishes("run"))


def test_settings_are_checked_and_the_message_says_where_to_look():
    check_settings("simulated", {"sample_loss": "0.1"})
    with pytest.raises(InvalidSetting, match=r"no setting is named 'colour'; known: .*carico-testbed list"):
        check_settings("simulated", {"colour": "red"})
    with pytest.raises(InvalidSetting, match="the provider kwok has no settings, got pressure"):
        check_settings("kwok", {"pressure": "kernel"})
