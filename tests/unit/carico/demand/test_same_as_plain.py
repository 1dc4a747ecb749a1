"""Decisions are those that a loop over nodes would make, which looks everything up anew.

The scheduler keeps columns of all nodes up to date event by event. The loop here knows only what has happened; of the
scheduler it believes what workloads cost.
"""

import math
from collections import Counter
from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from carico.demand.loads import FIRST_START_UP_S, MOST_START_UP_S, START_UP_GAIN
from carico.demand.regression import Estimate
from carico.demand.report import DemandReport, DiskReport, WorkloadReport
from carico.demand.scheduler import DemandScheduler
from carico.demand.settings import DEMAND
from carico.demand.waiting import Kind
from carico.scheduling.scheduler import STALE_AFTER_S

NODES = [f"node-{number}" for number in range(12)]
WORKLOADS = {"pi": 1.0, "light": 0.25, "wide": 3.0, "reader": 0.5, "new": 1.0}
PLACEMENTS = {"": NODES, "few": NODES[:3], "others": NODES[2:7]}
cores = st.sampled_from([2.0, 4.0, 16.0])
quarters = partial(st.integers, 0)
rarely = st.sampled_from([False, False, False, False, False, True])
kinds = st.builds(Kind, st.sampled_from(list(WORKLOADS)), st.sampled_from(list(PLACEMENTS)), rarely)


class Plain:
    """What has happened to nodes, and what a decision is by the rules of `docs/concepts/demand.md`."""

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.reports, self.at, self.capacity, self.sums = {}, {}, {}, {}
        self.coming = {}
        """Node, workload and time of the decision, by UID."""
        self.over = {}
        """Pods that have ended and are counted, by node."""
        self.critical = {}
        """The nodes of latency-critical pods, by UID."""
        self.start_up_s = {}
        self.summed_up = {}
        """The pooled costs with which the loads of nodes that depend on them were summed up last, by workload."""

    def cost(self, workload):
        loads = self.scheduler.loads
        return loads.cpu.cost(workload), loads.memory.cost(workload), loads.reads.cost(workload)

    def report(self, report, now):
        node = report.node
        self.capacity.pop(node, None)
        self.reports[node], self.at[node] = report, now
        for uid, (to, _, since) in list(self.coming.items()):
            if to == node and uid in report.counted:
                del self.coming[uid]
                before = self.start_up_s.setdefault(node, FIRST_START_UP_S)
                self.start_up_s[node] += START_UP_GAIN * (min(now - since, MOST_START_UP_S) - before)
        self.over[node] = [uid for uid in self.over.get(node, ()) if uid in report.counted]
        for workload in report.workloads:
            depending = [
                each
                for each, other in self.reports.items()
                if (workload in other.workloads and other.workloads[workload].exposed > 0.25)
                or any((to, name) == (each, workload) for to, name, _ in self.coming.values())
            ]
            mean = self.cost(workload)[0].mean
            is_coming = any(name == workload for _, name, _ in self.coming.values())
            if (depending or is_coming) and not abs(mean - self.summed_up.get(workload, math.inf)) <= 0.1 * mean + 0.02:
                self.summed_up[workload] = mean
                for each in depending:
                    self.sum_up(each)
        self.sum_up(node)

    def report_capacity(self, node, capacity, now):
        self.reports.pop(node, None)
        self.over.pop(node, None)
        self.capacity[node], self.at[node] = capacity, now

    def leave(self, node):
        for known in (self.reports, self.at, self.capacity, self.over, self.start_up_s):
            known.pop(node, None)

    def end(self, uid):
        if uid in self.coming:
            self.sum_up(self.coming.pop(uid)[0])

    def place(self, uid, workload, node, now):
        if uid not in self.counted(node):
            self.coming[uid] = node, workload, now
            self.sum_up(node)

    def counted(self, node):
        return self.reports[node].counted if node in self.reports else {}

    def sum_up(self, node):
        """Note the load of a node with what is known now, like the scheduler: cores, GiB, reads, freed cores."""
        if node not in self.reports:
            return
        report = self.reports[node]
        coming = Counter(workload for to, workload, _ in self.coming.values() if to == node)
        over = Counter(report.counted[uid] for uid in self.over[node])
        load, doubt = report.demand_cores
        known = memory_doubt = freed = reads = 0.0
        for workload, number in coming.items():
            cpu, memory, _ = self.cost(workload)
            running = report.workloads[workload].pods if workload in report.workloads else 0
            load += number * cpu.mean
            doubt += ((number + running) ** 2 - running**2) * cpu.variance
            memory_doubt += (number + running) ** 2 * memory.variance
        for workload, told in report.workloads.items():
            cpu, memory, _ = self.cost(workload)
            known += told.pods * max(told.gib.mean, memory.mean)
            if workload not in coming:
                memory_doubt += told.pods**2 * memory.variance
            freed += told.stops_per_s * cpu.mean
            most = 2 * math.sqrt(told.cores.variance)
            load += told.exposed * min(max(cpu.mean - told.cores.mean, -most), most)
            doubt -= told.exposed**2 * max(told.cores.variance - cpu.variance, 0.0)
        held = max(report.held_gib, report.baseline_gib + known)
        for workload, number in coming.items():
            _, memory, read = self.cost(workload)
            held, reads = held + number * memory.mean, reads + number * read.mean
        for workload, number in over.items():
            cpu, memory, read = self.cost(workload)
            load, held, reads = load - number * cpu.mean, held - number * memory.mean, reads - number * read.mean
        soon = self.start_up_s.get(node, FIRST_START_UP_S) * freed
        self.sums[node] = (
            max(load, 0.0) + DEMAND.caution * max(doubt, 0.0) - soon,
            max(held, 0.0) + DEMAND.caution * memory_doubt,
            math.inf if report.disk is None else report.disk.level - max(report.disk.reads + reads, 0.0),
            freed,
            soon,
        )

    def shares(self, candidates):
        """Whether waiting pods share CPUs rather than wait on."""
        wanted, widest = Counter(), Counter()
        for kind, number in self.scheduler.waiting.kinds.items():
            cpu, _, _ = self.cost(kind.workload)
            wanted[kind.placement] += number * (cpu.mean + DEMAND.caution * cpu.variance)
            widest[kind.placement] = max(widest[kind.placement], cpu.mean)
        everywhere = set().union(*candidates.values())
        among = [node for node in self.reports if node in everywhere]
        total = sum(wanted.values())
        if DEMAND.patience_s * sum(self.sums[node][3] for node in among) >= total:
            return False
        return self.take(among, total, max(widest.values(), default=0.0)) and all(
            self.take([node for node in self.reports if node in candidates[name]], wanted[name], widest[name])
            for name in wanted
            if name in candidates
        )

    def take(self, nodes, cores, widest):
        nodes = [node for node in nodes if node not in self.critical.values()]
        sizes = sorted(self.reports[node].cores for node in nodes)
        most = 16 * sizes[int(0.75 * (len(sizes) - 1))] if len(sizes) >= 4 else math.inf
        believed = {node: min(self.reports[node].cores, most) for node in nodes}
        rooms = (DEMAND.threads_per_core * believed[node] - self.sums[node][0] for node in nodes)
        large_enough = widest <= DEMAND.wide * max(believed.values(), default=0.0)
        return large_enough and cores <= sum(max(room, 0.0) for room in rooms)

    def waits_for_gap(self, cores, nodes):
        told = [node for node in nodes if node in self.reports]
        least = min((max(DEMAND.wide * self.reports[node].cores, 1.5) for node in told), default=math.inf)
        narrower = any(self.cost(kind.workload)[0].mean <= least for kind in self.scheduler.waiting.kinds)
        return cores > 1.5 and not narrower and DEMAND.patience_s * sum(self.sums[n][3] for n in told) >= cores

    def verdict(self, kind, node, nodes, now, shares, gap):
        """What `NodeRoom` says of a node: cores, GiB, GiB needed, pods, idle, critical, age, reads."""
        coming = [workload for to, workload, _ in self.coming.values() if to == node]
        age_s = now - self.at.get(node, math.nan)
        if node not in self.reports:
            capacity = self.capacity[node] - len(coming) if node in self.capacity else math.nan
            return math.nan, math.nan, None, capacity, None, None, age_s, None
        report, (load, held, reads, _, soon) = self.reports[node], self.sums[node]
        cpu, memory, read = self.cost(kind.workload)
        told = report.workloads.get(kind.workload, WorkloadReport(0, 0.0, Estimate(0, 0), Estimate(0, 0)))
        critical = node in self.critical.values()
        if critical and DEMAND.critical_share * report.cores <= cpu.mean:
            fresh = [each for each in nodes if now - self.at.get(each, math.nan) <= STALE_AFTER_S]
            critical = any(each not in self.critical.values() for each in fresh)
        level = report.cores + DEMAND.headroom * math.sqrt(report.cores)
        if gap and cpu.mean > max(DEMAND.wide * report.cores, 1.5):
            level -= DEMAND.gap * cpu.mean
            load += soon
        if shares and cpu.mean <= DEMAND.wide * report.cores:
            level = max(level, DEMAND.threads_per_core * report.cores)
        if critical:
            level = DEMAND.critical_share * report.cores - cpu.mean
        alike = told.pods + coming.count(kind.workload)
        needs = max(memory.mean, told.gib.mean) + DEMAND.caution * memory.variance * (2 * alike + 1)
        counted = len(report.counted) - len(self.over[node]) + len(coming)
        reading = read.mean - math.sqrt(read.variance) > DEMAND.reads_from
        return (
            level - load,
            DEMAND.memory_limit * report.gib - held,
            needs,
            math.nan,
            not counted and not critical,
            critical,
            age_s,
            reads - read.mean / 2 if reading else math.inf,
        )


def fits(cores, gib, needs_gib, pods, idle, critical, age_s, reads):
    if not age_s <= STALE_AFTER_S:
        return False
    return pods >= 1 if not math.isnan(pods) else idle or (cores > 0 and gib >= needs_gib and reads >= 0)


class SameAsPlain(RuleBasedStateMachine):
    """Nodes join, report and leave, pods are created, placed, bound, counted and ended, in any order."""

    def __init__(self):
        super().__init__()
        self.scheduler = DemandScheduler(DEMAND)
        self.plain = Plain(self.scheduler)
        self.now = 0.0
        self.candidates = {}
        self.placed = {}
        self.bound = {}
        self.uids = map(str, range(10_000))

    @initialize(sizes=st.lists(cores, min_size=4, max_size=len(NODES)), some=st.lists(kinds, min_size=1, max_size=3))
    def begin(self, sizes, some):
        self.kinds = st.sampled_from(some)
        for node, size in zip(NODES, sizes, strict=False):
            self.tell(DemandReport(node, size, 8.0, Estimate(0.25, 0.0), 1.0, 1.0, {}, {}))

    def tell(self, report):
        self.scheduler.report(report, self.now)
        self.plain.report(report, self.now)

    @rule(seconds=st.sampled_from([0.25, 1.0, 3.0]))
    def wait(self, seconds):
        self.now += seconds

    @rule(
        node=st.sampled_from(NODES),
        cores=cores,
        waste=quarters(20),
        growth=quarters(24),
        known=st.sets(st.sampled_from(list(WORKLOADS)[:-1])),
        stops=quarters(2),
        apart=st.sampled_from([0, 0, 1, 2]),
        exposed=st.sampled_from([0.0, 0.0, 0.25, 0.5, 1.0]),
        disk=st.none() | st.builds(DiskReport, quarters(4), quarters(4)),
        data=st.data(),
    )
    def report(self, node, cores, waste, growth, known, stops, apart, exposed, disk, data):
        going = [uid for uid, (to, _) in (self.placed | self.bound).items() if to == node]
        counted = {uid: (self.placed | self.bound)[uid][1] for uid in going if data.draw(st.booleans())}
        running = Counter(counted.values())
        workloads = {
            name: WorkloadReport(
                running[name],
                stops / 4,
                Estimate(WORKLOADS[name] * 2**apart, 0.01 * 4**apart),
                Estimate(0.25, 0.01),
                Estimate(1.0, 0.01) if name == "reader" and disk is not None else None,
                exposed * running[name],
            )
            for name in sorted(known | running.keys())
        }
        demand = Estimate(waste / 4 + sum(map(WORKLOADS.get, counted.values())), 0.0625)
        self.tell(DemandReport(node, cores, 8.0, demand, 1.0 + growth / 4, 1.0, workloads, counted, disk))

    @rule(node=st.sampled_from(NODES), capacity=quarters(8))
    def report_capacity(self, node, capacity):
        self.scheduler.report_capacity(node, capacity / 2, self.now)
        self.plain.report_capacity(node, capacity / 2, self.now)

    @precondition(lambda self: self.plain.at)
    @rule(data=st.data())
    def leave(self, data):
        node = data.draw(st.sampled_from(sorted(self.plain.at)))
        self.scheduler.loads.forget(node)
        self.plain.leave(node)

    @rule(number=st.integers(1, 12), data=st.data())
    def create(self, number, data):
        kind = data.draw(self.kinds)
        for _ in range(number):
            self.scheduler.pod_waits(next(self.uids), kind)

    @rule(number=st.integers(1, 6), data=st.data())
    def ask(self, number, data):
        kind = data.draw(self.kinds)
        nodes = data.draw(st.permutations(PLACEMENTS[kind.placement]))
        self.candidates[kind.placement] = nodes
        for uid in (next(self.uids) for _ in range(number)):
            self.scheduler.pod_waits(uid, kind)
            decision = self.decided(uid, kind, nodes)
            if decision.node is not None:
                self.placed[uid] = decision.node, kind.workload
                if kind.critical:
                    self.plain.critical[uid] = decision.node
                self.plain.place(uid, kind.workload, decision.node, self.now)

    def decided(self, uid, kind, nodes):
        plain, now = self.plain, self.now
        shares = plain.shares(self.candidates)
        coming = any(workload == kind.workload for _, workload, _ in plain.coming.values())
        shares &= self.scheduler.loads.cpu.knows(kind.workload) or not coming
        gap = plain.waits_for_gap(plain.cost(kind.workload)[0].mean, nodes)
        expected = [plain.verdict(kind, node, nodes, now, shares, gap) for node in nodes]
        # Nodes that report no demand come after all others.
        rank = [-1e9 if math.isnan(each[0]) else each[0] for each in expected]
        fitting = [index for index, each in enumerate(expected) if fits(*each)]
        best = max(fitting, key=rank.__getitem__, default=None)
        decision = self.scheduler.filter(uid, kind, nodes, now)
        assert decision.best_index == best
        for (_, *found), wanted in zip(decision.verdicts, expected, strict=True):
            known = [(a, b) for a, b in zip(found, wanted, strict=True) if b is not None]
            assert [a for a, _ in known] == pytest.approx([b for _, b in known], rel=1e-12, abs=1e-12, nan_ok=True)
        return decision

    @precondition(lambda self: self.placed)
    @rule(data=st.data())
    def bind(self, data):
        uid = data.draw(st.sampled_from(sorted(self.placed)))
        node, workload = self.bound[uid] = self.placed.pop(uid)
        critical = uid in self.plain.critical
        self.scheduler.pod_changed(uid, workload, node, ended=False, now=self.now, critical=critical)
        if uid not in self.plain.coming:
            self.plain.place(uid, workload, node, self.now)

    @precondition(lambda self: self.placed or self.bound)
    @rule(data=st.data())
    def end(self, data):
        uid = data.draw(st.sampled_from(sorted(self.placed | self.bound)))
        self.scheduler.pod_gone(uid, self.now)
        self.placed.pop(uid, None)
        self.plain.critical.pop(uid, None)
        self.plain.end(uid)
        node, _ = self.bound.pop(uid, (None, None))
        if node is not None and uid in self.plain.counted(node):
            self.plain.over[node].append(uid)
            self.plain.sum_up(node)


TestSameAsPlain = SameAsPlain.TestCase
TestSameAsPlain.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
