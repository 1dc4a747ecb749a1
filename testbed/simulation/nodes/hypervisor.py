"""What a hypervisor does to its guests: neighbours on the host take CPU, and a core's speed is not always the same.

A guest sees stolen CPU as busy and never as pressure: the thread that lost the CPU counts as running (thesis §5.7: a
virtual machine masks what happens below it). Off by default.
"""

from __future__ import annotations

import math

import numpy as np

from carico.arrays import BoolArray, FloatArray
from testbed.simulation.parameters import SimulationParameters


class Hypervisor:
    """The CPUs that nodes really have, tick by tick.

    Parameters
    ----------
    cores, speed : ndarray, shape (nodes,)
        CPUs, and the work done in a CPU-second, without any disturbance.
    parameters : SimulationParameters
    rng : numpy.random.Generator
        Not used while there is neither steal nor noise.
    """

    def __init__(
        self, cores: FloatArray, speed: FloatArray, parameters: SimulationParameters, rng: np.random.Generator
    ) -> None:
        self.cores = self._all_cores = cores
        """CPUs that the guests can use now, shape (nodes,)."""
        self.speed = self._mean_speed = speed
        """Work that is done in a CPU-second now, shape (nodes,)."""
        self._parameters = parameters
        self._rng = rng
        nodes = cores.size
        self._stolen: BoolArray = rng.random(nodes) < parameters.steal_duty if parameters.steal else np.zeros(nodes) > 0
        self._deviation: FloatArray = rng.normal(size=nodes) if parameters.speed_noise else np.zeros(nodes)

    def advance(self, dt: float) -> None:
        """Draw the CPUs and the speed of the next `dt` seconds."""
        parameters, rng, nodes = self._parameters, self._rng, self._all_cores.size
        if parameters.steal:
            # Two states with exponential times, seen dt later: a state may have changed there and back meanwhile.
            duty = parameters.steal_duty
            mixed = -math.expm1(-dt / (parameters.steal_episode_s * (1.0 - duty))) if duty < 1 else 1.0
            self._stolen = rng.random(nodes) < np.where(self._stolen, 1.0 - (1.0 - duty) * mixed, duty * mixed)
            self.cores = self._all_cores * (1.0 - parameters.steal * self._stolen)
        if parameters.speed_noise:
            kept = math.exp(-dt / parameters.speed_noise_s)
            self._deviation = kept * self._deviation + math.sqrt(1.0 - kept**2) * rng.normal(size=nodes)
            spread = math.sqrt(math.log1p(parameters.speed_noise**2))
            self.speed = self._mean_speed * np.exp(spread * self._deviation - spread**2 / 2)
