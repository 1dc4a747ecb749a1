"""Stolen CPU and fluctuating speed: what guests get, and how much of that they can see."""

import numpy as np
import pytest

from testbed.simulation.nodes.hypervisor import Hypervisor
from testbed.simulation.parameters import SimulationParameters


def hypervisor(nodes=400, seed=0, **parameters):
    rng = np.random.default_rng(seed)
    return Hypervisor(np.full(nodes, 4.0), np.full(nodes, 2.0), SimulationParameters(**parameters), rng), rng


def history(one, seconds=60, dt=0.1):
    rows = []
    for _ in range(round(seconds / dt)):
        one.advance(dt)
        rows.append((one.cores.copy(), one.speed.copy()))
    return (np.array(column) for column in zip(*rows, strict=True))


def test_by_default_nothing_happens_and_nothing_is_drawn():
    one, rng = hypervisor()
    before = rng.bit_generator.state
    cores, speed = history(one, seconds=1)
    assert (cores == 4.0).all()
    assert (speed == 2.0).all()
    assert rng.bit_generator.state == before


@pytest.mark.parametrize("episode_s", [0.02, 0.3, 5.0])
@pytest.mark.parametrize("duty", [0.1, 0.5, 0.8])
def test_neighbours_take_their_share_for_their_part_of_the_time(duty, episode_s):
    cores, _ = history(hypervisor(steal=0.25, steal_duty=duty, steal_episode_s=episode_s)[0])
    assert set(np.unique(cores)) == {3.0, 4.0}
    assert (cores == 3.0).mean() == pytest.approx(duty, abs=0.04)


def test_episodes_have_their_mean_length():
    cores, _ = history(hypervisor(steal=0.25, steal_episode_s=3)[0], seconds=120)
    stolen = cores == 3.0
    ends = (stolen[:-1] & ~stolen[1:]).sum()
    assert stolen.sum() * 0.1 / ends == pytest.approx(3.0, rel=0.1)


@pytest.mark.parametrize(("duty", "cores"), [(1.0, 3.0), (0.0, 4.0)])
def test_always_and_never(duty, cores):
    assert (next(iter(history(hypervisor(steal=0.25, steal_duty=duty)[0]))) == cores).all()


def test_speed_has_its_mean_its_variation_and_its_memory():
    _, speed = history(hypervisor(speed_noise=0.1, speed_noise_s=2.0)[0])
    assert speed.mean() == pytest.approx(2.0, rel=0.02)
    assert speed.std() / speed.mean() == pytest.approx(0.1, rel=0.05)
    first, second_later = speed[:-20].ravel(), speed[20:].ravel()
    assert np.corrcoef(first, second_later)[0, 1] == pytest.approx(np.exp(-1), abs=0.05)


def test_the_seed_decides():
    runs = [list(history(hypervisor(seed=seed, steal=0.3, speed_noise=0.1)[0], seconds=2)) for seed in (1, 1, 2)]
    for same, other in zip(runs[0], runs[1], strict=True):
        assert (same == other).all()
    assert any((same != other).any() for same, other in zip(runs[0], runs[2], strict=True))


class TestOnNodes:
    def test_stolen_cpu_makes_work_take_longer(self, make_nodes):
        for steal, expected_s in ((0.0, 10.0), (0.5, 20.0)):
            nodes = make_nodes(steal=steal, steal_duty=1.0)
            for name in "abcd":
                nodes.start(name, work=10.0)
            assert list(nodes.until_all_ended().values()) == pytest.approx([expected_s] * 4, abs=0.2)

    def test_stolen_cpu_looks_busy_and_is_no_pressure(self, make_nodes):
        nodes = make_nodes(steal=0.5, steal_duty=1.0)
        for name in "abcd":
            nodes.start(name, work=100.0)
        nodes.advance(10)
        assert nodes.busy_s == pytest.approx(40.0, abs=0.2)
        assert nodes.fleet.counters().cpu_pressure_us == 0
        assert nodes.fleet.counters().cpu_stolen == pytest.approx(2000, abs=20), "half of what four threads wanted"

    def test_an_idle_cpu_loses_nothing_to_steal(self, make_nodes):
        nodes = make_nodes(steal=0.5, steal_duty=1.0)
        nodes.start("a", work=10.0)
        assert nodes.until_all_ended()["a"] == pytest.approx(10.0, abs=0.2)
        assert nodes.busy_s == pytest.approx(10.0, abs=0.2)
        assert nodes.fleet.counters().cpu_stolen == 0

    def test_a_slower_cpu_is_as_busy(self, make_nodes):
        nodes = make_nodes(nodes=50, speed_noise=0.3, speed_noise_s=5.0)
        for node in range(50):
            nodes.start(node, work=20.0, node=node)
        ends = np.array(list(nodes.until_all_ended().values()))
        assert ends.mean() == pytest.approx(20.0, rel=0.15)
        assert ends.std() > 1.0
