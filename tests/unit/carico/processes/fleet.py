"""Many agents in one process, each as `carico agent` runs it, on machines whose load is made up: a program of tests.

``python fleet.py FILE``: the file holds a list of agents' configurations. Every folder that is some agent's `proc` is
made a machine with a load of its own, from idle to busy by its name, whose counters follow the clock.
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from carico.agent.process import run_agent
from carico.commands.stopping import stop_signal
from carico.config import AgentConfig
from carico.logs import set_up_logs
from carico.testing import FakeProc

ELAPSE_EVERY_S = 0.04
"""Well below the agents' period of 0.1 s, so that no reading finds the counters as it left them."""
BUSIEST = 0.4


def main(file):
    agents = msgspec.convert(json.loads(Path(file).read_text()), list[AgentConfig])
    machines = [FakeProc(folder) for folder in sorted({agent.proc for agent in agents})]
    for number, machine in enumerate(machines):
        machine.cpu_utilisation = BUSIEST * number / len(machines)
    set_up_logs("text", "info")
    with stop_signal() as stop, ThreadPoolExecutor(len(agents)) as pool:
        running = [pool.submit(run_agent, agent, stop) for agent in agents]
        for agent in running:
            agent.add_done_callback(lambda _: stop.set())  # one that fails ends all
        now = time.monotonic()
        while not stop.wait(ELAPSE_EVERY_S):
            before, now = now, time.monotonic()
            for machine in machines:
                machine.elapse(now - before)
        for agent in running:
            agent.result()  # raises what it ended with


if __name__ == "__main__":
    main(sys.argv[1])
