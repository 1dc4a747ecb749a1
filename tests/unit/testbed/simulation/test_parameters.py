"""Settings become parameters; invalid settings are refused with a message that helps."""

import msgspec
import pytest

from testbed.errors import InvalidSetting
from testbed.simulation.parameter_sets import PARAMETER_SETS
from testbed.simulation.parameters import SimulationParameters, parameters_from

DEFAULTS = msgspec.to_builtins(SimulationParameters())


def test_nothing_set_is_the_calibrated_cluster():
    assert parameters_from({}) == SimulationParameters()


@pytest.mark.parametrize("name", DEFAULTS)
def test_every_parameter_can_be_set_as_text(name):
    parameters = parameters_from({name: str(DEFAULTS[name])})
    assert parameters == SimulationParameters()
    assert type(getattr(parameters, name)) is type(DEFAULTS[name])


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("sample_loss", "0.1", 0.1),
        ("sample_loss", 1, 1.0),
        ("starts_per_s", "1e3", 1000.0),
        ("warm_up_s", "0", 0.0),
        ("warm_up_s", "0.3", 0.3),
        ("tick_s", "0.05", 0.05),
        ("tick_s", "0.02", 0.02),
        ("platform_millicpu", "300", 300),
        ("pod_creations_burst", "100", 100),
        ("pressure", "at-least-one-waiting", "at-least-one-waiting"),
    ],
)
def test_values(name, value, expected):
    assert getattr(parameters_from({name: value}), name) == expected


def test_several_at_once():
    parameters = parameters_from({"start_delay_min_s": "2", "start_delay_max_s": "3"})
    assert (parameters.start_delay_min_s, parameters.start_delay_max_s) == (2.0, 3.0)


@pytest.mark.parametrize("name", PARAMETER_SETS)
def test_a_named_set_is_the_defaults_with_its_own_values(name):
    assert msgspec.to_builtins(parameters_from({"parameters": name})) == DEFAULTS | PARAMETER_SETS[name]


@pytest.mark.parametrize("name", PARAMETER_SETS)
def test_settings_override_a_named_set(name):
    assert parameters_from({"start_cpu_s": "0.05", "parameters": name}).start_cpu_s == 0.05


def test_an_unknown_set_lists_the_known_ones():
    with pytest.raises(InvalidSetting, match="no set of parameters is named 'xen'; known: thesis, kind"):
        parameters_from({"parameters": "xen"})


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(InvalidSetting) as error:
        parameters_from({"tick": "0.1", "colour": "red", "tick_s": "0.1"})
    assert str(error.value).startswith(
        "no setting is named 'colour', 'tick'; known: parameters, pressure, quota_of_cpus, "
    )
    assert all(name in str(error.value) for name in DEFAULTS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pressure": "psi"}, "cannot set pressure=psi: pressure: one of "),
        ({"pressure": "psi"}, "one of at-least-one-waiting, kernel is needed, got 'psi'"),
        ({"sample_loss": "1.1"}, "cannot set sample_loss=1.1: sample_loss: a number from 0 to 1 is needed, got '1.1'"),
        ({"sample_loss": "-0.1"}, "a number from 0 to 1 is needed, got '-0.1'"),
        ({"sample_loss": ""}, "cannot set sample_loss=: sample_loss: a number from 0 to 1 is needed, got ''"),
        ({"sample_loss": "10%"}, "sample_loss: a number from 0 to 1 is needed, got '10%'"),
        ({"sample_loss": True}, "a number from 0 to 1 is needed, got true"),
        ({"sample_loss": None}, "a number from 0 to 1 is needed, got nothing"),
        ({"sample_loss": "nan"}, "sample_loss: a number from 0 to 1 is needed, got 'nan'"),
        ({"warm_up_s": "inf"}, "warm_up_s: a number from 0 to 3600 is needed, got 'inf'"),
        ({"warm_up_s": "0.25"}, "warm_up_s must be a multiple of 0.1 s, got 0.25"),
        ({"tick_s": "0"}, "tick_s: a number from 0.001 to 0.1 is needed, got '0'"),
        ({"tick_s": "1e-300"}, "tick_s: a number from 0.001 to 0.1 is needed, got '1e-300'"),
        ({"tick_s": "0.2"}, "tick_s: a number from 0.001 to 0.1 is needed, got '0.2'"),
        ({"tick_s": "0.03"}, "tick_s must divide the telemetry period of 0.1 s, got 0.03"),
        ({"starts_per_s": "0"}, "starts_per_s: a number above 0"),
        ({"pod_creations_burst": "0"}, "pod_creations_burst: a whole number from 1 "),
        ({"pod_creations_burst": "1.5"}, "pod_creations_burst: a whole number from 1 "),
        ({"start_delay_min_s": "2"}, "start_delay_min_s must not exceed start_delay_max_s, got 2.0 and 1.0"),
        ({"running_visible_max_s": "0.1"}, "running_visible_min_s must not exceed running_visible_max_s"),
        ({"finished_visible_max_s": "0.1"}, "finished_visible_min_s must not exceed finished_visible_max_s"),
        ({"backoff_initial_s": "11"}, "backoff_initial_s must not exceed backoff_max_s, got 11.0 and 10.0"),
        ({"carico_backoff_max_s": "0.5"}, "backoff_initial_s must not exceed carico_backoff_max_s, got 1.0 and 0.5"),
    ],
)
def test_a_wrong_value_is_named(settings, message):
    with pytest.raises(InvalidSetting) as error:
        parameters_from(settings)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_wrong_value_beside_a_named_set_is_named():
    with pytest.raises(InvalidSetting, match="cannot set parameters=kind, speed_noise=often"):
        parameters_from({"parameters": "kind", "speed_noise": "often"})
