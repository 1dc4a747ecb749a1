import dataclasses

import numpy as np
import pytest

from carico.errors import InvalidInput, UnknownVariant
from carico.model.aggregator import BATCH_SIZE, MERGE_PERIOD_S
from carico.model.node_model import NodeModel
from carico.model.variants import (
    DEFAULT_VARIANT,
    SAMPLES_PER_S,
    THESIS_LITERAL,
    THESIS_REBASED,
    UTILISATION_ONLY,
    VARIANTS,
    Variant,
)
from carico.variants import variant_named


def differences(one, other):
    return {
        field.name for field in dataclasses.fields(Variant) if getattr(one, field.name) != getattr(other, field.name)
    } - {"name", "description"}


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_every_variant_has_its_name_and_a_description(name):
    variant = variant_named(name)
    assert variant.name == name
    assert variant.description


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=lambda variant: variant.name)
def test_every_variant_runs(variant):
    model = NodeModel(variant)
    for tick in range(10):
        model.observe([0.1, 0.2], at=tick / 10)
    assert model.step(at=1.0).pod_capacity == pytest.approx(1 / variant.kalman.initial_cost)


def test_the_error_for_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UnknownVariant, match=r"'other'; known: .*thesis-rebased, thesis-literal"):
        variant_named("other")


def test_a_misspelt_name_is_asked_after():
    with pytest.raises(UnknownVariant, match=r"'demnd', did you mean 'demand'\? known: "):
        variant_named("demnd")


def test_the_default_is_the_rebased_thesis():
    assert DEFAULT_VARIANT is THESIS_REBASED is variant_named("thesis-rebased")


def test_variants_differ_only_as_their_names_say():
    assert differences(THESIS_REBASED, THESIS_LITERAL) == {"rebase"}
    assert differences(THESIS_REBASED, UTILISATION_ONLY) == {"cpu_metric"}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_aggregators_know_what_agents_send_and_how_often(variant):
    assert variant.batch_size == BATCH_SIZE
    assert variant.batch_size / SAMPLES_PER_S == 1.0
    assert variant.exchange_age_s == MERGE_PERIOD_S


def test_a_variant_is_immutable_and_hashable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        THESIS_REBASED.rebase = False
    assert dataclasses.replace(THESIS_REBASED) == THESIS_REBASED
    assert len({*VARIANTS.values(), dataclasses.replace(THESIS_REBASED)}) == len(VARIANTS)


@pytest.mark.parametrize(
    "change",
    [
        {"estimator": "triple"},
        {"cpu_metric": "psi"},
        {"batch_weight": -0.1},
        {"batch_weight": 1.1},
        {"global_weight": np.nan},
        {"idle_memory": 2},
        {"batch_size": 0},
        {"batch_size": 101},
        {"hold_off_s": -1},
        {"hold_off_s": np.nan},
        {"exchange_drift": -0.1},
        {"rank": 0},
        {"rank": -2},
        {"workload_exponent": -1},
        {"workload_exponent": np.nan},
    ],
    ids=str,
)
def test_refuses_invalid_parameters(change):
    with pytest.raises(InvalidInput, match=next(iter(change))):
        dataclasses.replace(THESIS_REBASED, **change)
