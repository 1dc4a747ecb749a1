"""Servers that die, hang and come back under load: 100 agents, and somebody who asks all the time, on this machine.

The servers are processes of their own, killed and stopped by signals. The agents are real, too, each with its threads,
connections and certificate, but share two processes: a process each takes 52 MiB, most of them Python's and numpy's.
Their nodes' counters are made up. Everything is asked from outside: /metrics, /filter and the journal.
"""

import http.client
import json
import re
import signal
import threading
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

import pytest

from carico.extender.journal import Entry
from carico.extender.journal_reader import read_entries

from . import fleet
from .real_processes import PATIENCE_S, Cluster, Process, filter_answer, metrics_at, wait_for

pytestmark = [pytest.mark.machine, pytest.mark.quiet]

FLEETS = ("a", "b")
AGENTS = 50
"""Of a fleet."""
MACHINES = 10
"""Of a fleet: so many different loads."""
NODES = [f"node-{name}-{number}" for name in FLEETS for number in range(AGENTS)]
NEVER_HEARD_OF = "node-c"
LONERS = 5
"""Of a fleet, beside its agents: they know no server, so what they miss is this machine's fault."""

AWAY_S = {"aggregator": 6.0, "extender": 4.0}
"""Long enough for agents to notice: one exchanges at least every 5 s, and of its reports, one a second, it wants every
fifth answered; where an extender hangs not all hear of it by then. Shorter than reports are believed."""
BACK_WITHIN_S = 90.0
"""The longest pause between two calls (`carico.rpc.background.BACKOFF`) twice, and a call that failed between them."""
STALE_AFTER_S = 10.0
"""The extender's. Twice the default: where others have the machine reports come late."""
LOST_BY_ONE_WAIT = 9
"""Deadlines of 0.1 s that a loop misses if it waits for a single call that is not answered within its deadline."""
WAITED_S = 3.0
"""Who asked and waited for a server that is away would have taken longer; others take milliseconds."""


class Asked(NamedTuple):
    """A request, as its sender saw it."""

    began: float
    took_s: float
    node: str
    """What was answered, empty if there was no node."""
    error: str


class Asking(threading.Thread):
    """Asks for one pod after the other, all the time, over one connection that is made again when it breaks."""

    def __init__(self, cluster):
        super().__init__(name="asking", daemon=True)
        self.asked = []
        self._cluster = cluster
        self._end = threading.Event()

    def run(self):
        connection = self._cluster.asking(timeout_s=PATIENCE_S)
        # Few pods in turn: one that is asked for again gives its earlier reservation back, or nodes would fill up.
        while not self._end.wait(0.01):
            uid, began, node, error = f"pod-{len(self.asked) % 20}", time.monotonic(), "", ""
            try:
                node = "".join(filter_answer(connection, uid, [*NODES, NEVER_HEARD_OF])["NodeNames"])
            except (OSError, http.client.HTTPException) as failure:
                error = repr(failure)
                connection.close()
            self.asked.append(Asked(began, time.monotonic() - began, node, error))
        connection.close()

    def since(self, at):
        return [one for one in self.asked if one.began >= at]

    def end(self):
        self._end.set()
        self.join()


class World:
    """The cluster, its fleets of agents, and who asks."""

    def __init__(self, folder, pki):
        self.cluster = Cluster(folder, pki, stale_after_s=STALE_AFTER_S)
        self.fleets = {}
        self.asking = Asking(self.cluster)

    def start(self):
        self.cluster.start("aggregator")
        self.cluster.start("extender")
        for name in FLEETS:
            self.start_fleet(name)
        for server in ("aggregator", "extender"):
            self.wait_until_known(server, len(NODES))
        everybody = len(FLEETS) * (AGENTS + LONERS)
        wait_for(lambda: len(self.ports()) == everybody, lambda: f"{len(self.ports())} of {everybody} agents run")
        self.asking.start()

    def kill(self, server):
        self.cluster.running[server].end(signal.SIGKILL)

    def start_fleet(self, name):
        folder = self.cluster.folder
        agents = [
            self.cluster.agent(f"node-{name}-{number}", proc=str(folder / f"machine-{name}-{number % MACHINES}"))
            for number in range(AGENTS)
        ]
        agents += [
            agents[number] | {"node": f"loner-{name}-{number}", "aggregator": None, "schedulers": []}
            for number in range(LONERS)
        ]
        file = folder / f"fleet-{name}.json"
        file.write_text(json.dumps(agents))
        self.fleets[name] = Process(folder, f"fleet-{name}", fleet.__file__, str(file))

    def known(self, server):
        """How many nodes a server has heard of."""
        return self.cluster.running[server].metrics().get(f"carico_{server}_nodes", 0)

    def believed(self):
        """The nodes whose last report the extender goes by."""
        port = self.cluster.running["extender"].told("status_port")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/nodes", timeout=PATIENCE_S) as answer:
            return {one["node"] for one in json.load(answer)["nodes"] if not one["stale"]}

    def wait_until_known(self, server, nodes):
        """Return when how many nodes were known, as (seconds, nodes), from now until all of these are."""
        began, seen = time.monotonic(), []

        def all_are():
            seen.append((time.monotonic() - began, self.known(server)))
            return seen[-1][1] == nodes

        wait_for(all_are, lambda: f"{server} knows {seen[-1]} nodes, not {nodes}", BACK_WITHIN_S)
        return seen

    def ports(self):
        """Where every agent says how it is, by node; loners first."""
        said = "".join(one.logged() for one in self.fleets.values())
        return dict(sorted(re.findall(r"node=(\S+) status_port=(\d+)", said)))

    def agents(self):
        """The metrics of every agent, by node."""
        return {node: metrics_at(port) for node, port in self.ports().items()}

    def succeeded_since(self, before, server):
        """How many calls to a server have not failed, by node, since `agents` returned `before`."""
        name, now = self.cluster.calls(server, "succeeded"), self.agents()
        return {node: now[node][name] - before[node][name] for node in NODES}

    def wait_until_talked_to(self, before, server, calls=1):
        """Return when so many calls of every agent to a server have not failed, since `agents` returned `before`."""
        wait_for(
            lambda: min(self.succeeded_since(before, server).values()) >= calls,
            lambda: f"calls to the {server} that did not fail: {self.succeeded_since(before, server)}",
            BACK_WITHIN_S,
        )

    def wait_until_answered(self, server):
        """Return when a server has answered every agent anew: of reports every fifth is."""
        self.wait_until_talked_to(self.agents(), server, {"aggregator": 1, "extender": 5}[server])

    def missed_by_waiting_since(self, before):
        """How many samples more an agent has left out than this machine is to blame for, since `agents` returned
        `before`: the most of all agents, less twice the most of the few that have nobody to wait for."""
        name = "carico_agent_missed_samples_total"
        now = self.agents()
        # Anew, so that what held them up while they were read counts for loners in any case.
        now |= {node: metrics_at(port) for node, port in self.ports().items() if node not in NODES}
        missed = {node: now[node][name] - before[node][name] for node in now}
        return max(missed[node] for node in NODES) - 2 * max(missed[node] for node in missed.keys() - set(NODES))

    def wait_for_asked(self, count):
        """Return what is asked from now on, when it is so much."""
        began = time.monotonic()
        wait_for(lambda: len(self.asking.since(began)) >= count, "nobody asks")
        return self.asking.since(began)

    def decisions(self):
        """What the journal says."""
        return [entry for _, entry in read_entries(self.cluster.journal) if isinstance(entry, Entry)]

    def threads_and_files(self):
        """How many the fleets have open."""
        folders = [Path(f"/proc/{one.process.pid}") for one in self.fleets.values()]
        return [len(list((folder / what).iterdir())) for folder in folders for what in ("task", "fd")]

    def close(self):
        if self.asking.is_alive():
            self.asking.end()
        for one in self.fleets.values():
            one.process.kill()
            one.process.wait()
        self.cluster.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory, pki):
    world = World(tmp_path_factory.mktemp("faults"), pki)
    try:
        world.start()
        yield world
    finally:
        world.close()


@pytest.mark.parametrize("killed", [("aggregator",), ("extender",), ("extender", "aggregator")], ids=" and ".join)
def test_servers_are_killed_and_started_again(world, killed):
    before, began = world.agents(), time.monotonic()
    for server in killed:
        world.kill(server)
    time.sleep(max(AWAY_S[server] for server in killed))
    restarted_unix_s = time.time()
    for server in killed:
        world.cluster.start(server)
    back = {server: world.wait_until_known(server, len(NODES)) for server in killed}
    known = time.monotonic()
    world.wait_for_asked(50)

    # No agent has waited for a server, and every one talks to both again: a server that a hundred come back to at once
    # may know a node before its agent has an answer, or too late for that.
    assert world.missed_by_waiting_since(before) < LOST_BY_ONE_WAIT
    for server in ("aggregator", "extender"):
        world.wait_until_talked_to(before, server)
    # Whoever asks gets a node as before, at the latest when all nodes are back.
    assert {bool(one.node) for one in world.asking.since(known)} == {True}
    asked = world.asking.since(began)
    errors = [one for one in asked if one.error]
    if "extender" not in killed:
        assert {bool(one.node) for one in asked} == {True}
        return
    # A request finds out at once that nobody is there, and nothing is decided on what was known before.
    assert errors
    assert max(one.took_s for one in errors) < WAITED_S
    # The first may be made before any node has reported again, or not; another thread writes it down.
    decisions = wait_for(
        lambda: [entry for entry in world.decisions() if entry.at >= restarted_unix_s],
        world.cluster.running["extender"],
    )
    for entry in decisions:
        chosen = [one for one in entry.candidates if one.node == entry.choice]
        assert all(one.age_s < entry.at - restarted_unix_s for one in chosen)
    # Agents notice within a second, the period of their reports. If their pauses were the same, from one tenth of them
    # to nine tenths it would be 0.8 s at most; but they differ by up to a half, and have added up to seconds.
    tenth, nine_tenths = (
        next(at for at, nodes in back["extender"] if nodes >= share * len(NODES)) for share in (0.1, 0.9)
    )
    assert nine_tenths - tenth > 0.8


@pytest.mark.parametrize("hangs", ["aggregator", "extender"])
def test_a_server_hangs_and_goes_on(world, hangs):
    process = world.cluster.running[hangs].process
    before, began = world.agents(), time.monotonic()
    process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(AWAY_S[hangs])
    finally:
        process.send_signal(signal.SIGCONT)
    went_on = time.monotonic()
    world.wait_until_answered(hangs)
    world.wait_for_asked(50)

    assert world.missed_by_waiting_since(before) < LOST_BY_ONE_WAIT
    # Requests are answered, by a server that hangs as soon as it goes on.
    asked = world.asking.since(began)
    assert [one.error for one in asked if one.error] == []
    hung_until = went_on if hangs == "extender" else 0.0
    assert max(one.took_s - max(0.0, hung_until - one.began) for one in asked) < WAITED_S
    assert {bool(one.node) for one in asked} == {True}


def test_pods_go_to_live_nodes_only(world):
    dead, alive = FLEETS
    world.fleets[dead].end(signal.SIGKILL)
    # The extender believes a report for some seconds; a new one has none.
    silent_nodes = {node for node in NODES if node.startswith(f"node-{dead}-")}
    wait_for(lambda: world.believed().isdisjoint(silent_nodes), world.believed)
    silent = world.wait_for_asked(50)
    assert {one.node.rpartition("-")[0] for one in silent} == {f"node-{alive}"}
    for entry in world.decisions():
        assert all(one.age_s <= STALE_AFTER_S for one in entry.candidates if one.node == entry.choice)
    world.kill("extender")
    world.cluster.start("extender")
    world.wait_until_known("extender", AGENTS)
    assert {one.node.rpartition("-")[0] for one in world.wait_for_asked(50)} == {f"node-{alive}"}

    world.start_fleet(dead)
    world.wait_until_known("extender", len(NODES))
    assert {one.node.rpartition("-")[0] for one in world.wait_for_asked(50)} <= {f"node-{name}" for name in FLEETS}


def test_five_restarts_leave_no_thread_and_no_file_behind(world):
    for server in ("aggregator", "extender"):
        world.wait_until_answered(server)  # all connections are made
    before = world.threads_and_files()
    for server in ("extender", "aggregator", "extender", "aggregator", "extender"):
        world.kill(server)
        world.cluster.start(server).told("status_port")
    for server in ("aggregator", "extender"):
        world.wait_until_known(server, len(NODES))
    # A connection that is just being made again, or a look at /metrics: a few. One for every agent would be fifty.
    wait_for(
        lambda: all(now < AGENTS / 5 + then for now, then in zip(world.threads_and_files(), before, strict=True)),
        lambda: f"from {before} to {world.threads_and_files()}",
    )
