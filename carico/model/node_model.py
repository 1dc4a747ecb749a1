"""One node's pipeline from telemetry to Pod-Capacity, sans I/O (thesis chapter 3 and §4.2), for one node or many.

It owns all sequencing: which samples make a batch (late ones are dropped, lost ones weigh nothing), when estimation
holds off, when an exchange with the aggregator is due. Its drivers only move bytes: the agent in production, the
simulated cluster under virtual time. It reads no clock; time comes in with every call.

The order within a `step` is the rule of the algorithm::

    batch ─► merge with own past ─► merge with the global view ─► σ_1 u_1 ─► k ─► (÷ k of the idle node) ─► filters
                                                                     ▲ smoothed usage y            └─► Pod-Capacity
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from carico.arrays import BoolArray, FloatArray, IntArray, common_shape, finite, numbers, whole, zero_if_nan
from carico.errors import InvalidInput, InvalidState
from carico.model.capacity import MAX_PODS, capacity_signal, pod_capacity, pod_capacity_from_baseline
from carico.model.estimators import ESTIMATORS
from carico.model.report import Report, first_of
from carico.model.smoothing import DynamicEma
from carico.model.state import BOUNDS, TIMES, checked_state
from carico.model.subspace import Subspace
from carico.model.variants import DEFAULT_VARIANT, Variant

RESOURCES = ("cpu", "memory")

AnyArray = TypeVar("AnyArray", IntArray, BoolArray)


class NodeModel:
    """Learns how many more pods a node can take.

    Parameters
    ----------
    variant : Variant, optional
        The parameters; `thesis-rebased` by default.
    nodes : int, optional
        Number of nodes served at once. None (the default) is one node with scalar reports; an integer puts a leading
        node axis on everything.
    resources : sequence of str
        The names of the d observed resources.
    max_pods : array_like of int
        The maximum number of pods, of all nodes or of each.
    pods : array_like of int
        Pods that already run.

    Examples
    --------
    >>> model = NodeModel()
    >>> for tick in range(1, 11):
    ...     model.observe([0.05, 0.20], at=tick / 10)
    >>> report = model.step(at=1.0)
    >>> round(float(report.pod_capacity), 6)   # a node that knows nothing advertises two pods
    2.0
    """

    def __init__(
        self,
        variant: Variant = DEFAULT_VARIANT,
        nodes: int | None = None,
        resources: tuple[str, ...] = RESOURCES,
        max_pods: ArrayLike = MAX_PODS,
        pods: ArrayLike = 0,
    ) -> None:
        if nodes is not None and nodes < 1:
            raise InvalidInput(f"nodes must be at least 1, got {nodes}")
        most = whole("max_pods", max_pods)
        if (most < 1).any() or not resources:
            raise InvalidInput(f"at least one pod and one resource are needed, got {max_pods!r} and {resources}")
        self.variant = variant
        self.resources = tuple(resources)
        self._scalar = nodes is None
        self._nodes = count = 1 if nodes is None else nodes
        self._max_pods: IntArray = self._per_node("max_pods", most)
        d, size = len(self.resources), variant.batch_size
        rank = d if variant.rank is None else min(variant.rank, d)
        initial = whole("pods", pods)
        if (initial < 0).any():
            raise InvalidInput(f"pods must not be negative, got {pods!r}")
        self._pods: IntArray = self._per_node("pods", initial).copy()
        self._ema = DynamicEma(
            variant.alpha_slow, variant.alpha_fast, variant.change_threshold, variant.change_patience
        )
        self._ema.value, self._ema.deviating = np.full((count, d), np.nan), np.zeros((count, d), dtype=np.int64)
        self._estimator = ESTIMATORS[variant.estimator](variant.kalman)
        self._estimator.update(np.full(count, np.nan), self._pods)
        self._last_sample_at = np.full(count, -np.inf)
        self._last_event_at = np.full(count, -np.inf)
        self._batch: FloatArray = np.zeros((count, d, size))
        self._batched: IntArray = np.zeros(count, dtype=np.int64)
        self._own_basis: FloatArray = np.zeros((count, d, rank))
        self._own_values: FloatArray = np.zeros((count, rank))
        self._global_basis: FloatArray = np.zeros((count, d, rank))
        self._global_values: FloatArray = np.zeros((count, rank))
        self._has_own = np.zeros(count, dtype=bool)
        self._has_global = np.zeros(count, dtype=bool)
        self._exchanged: FloatArray = np.full((count, d), np.nan)
        self._exchanged_at: FloatArray = np.full(count, -np.inf)
        self._idle_usage: FloatArray = np.full((count, d), np.nan)

    @property
    def pods(self) -> IntArray:
        """Running pods, counted from the pod events."""
        return self._pods[0] if self._scalar else self._pods.copy()

    def observe(self, sample: ArrayLike, at: float, received: ArrayLike = True) -> None:
        """Take in a telemetry sample of every node.

        Parameters
        ----------
        sample : array_like, shape (d,) or (nodes, d)
            [0, 1]-normalised usage.
        at : float
            When it was measured, seconds. A sample not newer than the last one is dropped.
        received : array_like of bool
            False where the sample was lost.

        Raises
        ------
        InvalidInput
            If a received value is not finite or outside [0, 1]; nothing is changed then.
        """
        arrived: BoolArray = self._per_node("received", np.asarray(received, dtype=bool))
        x = numbers("sample", sample)
        expected = (len(self.resources),) if self._scalar else (self._nodes, len(self.resources))
        if x.shape != expected:
            raise InvalidInput(f"a sample must have shape {expected} ({', '.join(self.resources)}), got {x.shape}")
        x = np.where(arrived[:, None], np.atleast_2d(x), 0.0)
        x = finite("sample", x, low=0.0, high=1.0)
        finite("at", at)
        self._take_in(x, at, arrived)

    def observe_series(self, samples: ArrayLike, at: ArrayLike) -> None:
        """Take in several samples of the only node in order; the same as repeated `observe`, but faster.

        Parameters
        ----------
        samples : array_like, shape (n, d)
            [0, 1]-normalised usage.
        at : array_like, shape (n,)
            When each was measured, seconds.

        Raises
        ------
        InvalidInput
            If this is a model of many nodes, or a value is not finite or outside [0, 1]; nothing is changed then.
        """
        if not self._scalar:
            raise InvalidInput(
                f"a series needs a model of one node, this one has {self._nodes}: take samples in with `observe`"
            )
        x, times, d = finite("samples", samples, low=0.0, high=1.0), finite("at", at), len(self.resources)
        if x.shape != (times.size, d) or times.ndim != 1:
            raise InvalidInput(
                f"samples must have shape (n, {d}) and their times (n,), got {x.shape} and {times.shape}"
            )
        newest = np.maximum.accumulate([self._last_sample_at[0], *times])
        fresh = times > newest[:-1]
        self._last_sample_at = newest[-1:]
        smoothed, size = self._ema.follow(x[fresh]), self.variant.batch_size
        self._batched += len(smoothed)
        kept = smoothed[-size:]  # a batch at most
        self._batch[0, :, np.arange(self._batched[0] - len(kept), self._batched[0]) % size] = kept

    def _take_in(self, x: FloatArray, at: float, arrived: BoolArray) -> None:
        fresh = arrived & (at > self._last_sample_at)
        smoothed = self._ema.advance(x, fresh[:, None])
        self._last_sample_at = np.where(fresh, at, self._last_sample_at)
        # A full batch makes room by dropping its oldest sample.
        nodes = np.flatnonzero(fresh)
        self._batch[nodes, :, self._batched[nodes] % self.variant.batch_size] = smoothed[nodes]
        self._batched[nodes] += 1

    def pod_event(self, change: ArrayLike, at: float, node: int | None = None) -> None:
        """Count pods that started (+1) or stopped (-1) and hold estimation off.

        Parameters
        ----------
        change : array_like of int, shape () or (nodes,)
            Change of the number of running pods. Nodes with change 0 have no event, unless `node` names them.
        at : float
            When it happened, seconds.
        node : int, optional
            The node concerned, if only one is.

        Raises
        ------
        InvalidInput
            If the count would become negative: a start was missed, reconcile first. Nothing is changed then.
        """
        finite("at", at)
        delta = whole("change", change)
        if node is None:
            changes = self._per_node("change", delta)
            concerned = changes != 0
        else:
            if not 0 <= node < self._nodes or delta.ndim:
                raise InvalidInput(
                    f"node must be in [0, {self._nodes - 1}] and change one number, got {node} and {change!r}"
                )
            changes = np.zeros(self._nodes, dtype=np.int64)
            changes[node] = delta
            concerned = np.arange(self._nodes) == node
        pods = self._pods + changes
        if (pods < 0).any():
            raise InvalidInput(
                f"{int(changes.min()):+d} pods would leave {int(pods.min())} running on a node: "
                f"a start was missed, reconcile the count"
            )
        self._pods = pods
        self._last_event_at = np.where(concerned, np.maximum(self._last_event_at, at), self._last_event_at)

    def reconcile(self, pods: ArrayLike, at: float) -> None:
        """Replace the counts by what a listing says; a difference counts as a pod event.

        Raises
        ------
        InvalidInput
            If a count is negative.
        """
        counted = self._per_node("pods", whole("pods", pods))
        if (counted < 0).any():
            raise InvalidInput(f"pods must not be negative, got {pods!r}")
        self.pod_event(counted - self._pods, at)

    def adopt(self, global_subspace: Subspace, nodes: ArrayLike | None = None) -> None:
        """Keep the aggregated subspace that `nodes` (all by default) received; it is used from the next step on.

        Raises
        ------
        InvalidInput
            If it describes another number of resources or of nodes; nothing is changed then.
        """
        index = self._index(nodes)
        d, rank = self._own_basis.shape[-2:]
        if global_subspace.basis.shape[-2] != d:
            raise InvalidInput(
                f"the global subspace describes {global_subspace.basis.shape[-2]} resources, this node observes {d}"
            )
        lead = global_subspace.basis.shape[:-2]
        if common_shape("subspaces and nodes", lead, index.shape) != index.shape:
            raise InvalidInput(f"one subspace, or one for each of {index.size} nodes, is needed, got shape {lead}")
        kept = min(rank, global_subspace.basis.shape[-1])
        self._global_basis[index] = 0.0
        self._global_values[index] = 0.0
        self._global_basis[index, :, :kept] = global_subspace.basis[..., :kept]
        self._global_values[index, :kept] = global_subspace.singular_values[..., :kept]
        self._has_global[index] = True

    def step(self, at: float, nodes: ArrayLike | None = None) -> Report:
        """Learn from the samples since the last step and report.

        Parameters
        ----------
        at : float
            Now, seconds.
        nodes : array_like of int, optional
            The nodes that step; all by default.

        Returns
        -------
        Report
            Of the nodes that stepped, in the order given.

        Raises
        ------
        InvalidInput
            If there is no such node; nothing is changed then.
        """
        finite("at", at)
        index = self._index(nodes)
        if self._scalar and index.size != 1:
            raise InvalidInput(f"this model has one node, number 0, got nodes={nodes!r}")
        # Without a sample since the last step, the usage is old: nothing is learned from it, least of all that pods
        # that have started meanwhile cost nothing.
        sampled = self._batched[index] > 0
        self._learn_own(index)
        own = self._own(index)
        workload = self._blend(own, index).scaled_workload(self.variant.workload_exponent)
        assert self._ema.value is not None
        usage = zero_if_nan(self._ema.value[index])
        signal = capacity_signal(usage, workload)
        blind = at - self._last_sample_at[index] > self.variant.blind_after_s

        pods = self._pods[index]
        hold_off = at < self._last_event_at[index] + self.variant.hold_off_s
        # A smoothed usage never reaches 1, so k never reaches 0. Learning halts close to 0, too: if idle usage and
        # baseline followed a full node, the node would look as if it had room.
        full = signal <= self.variant.kalman.full_signal
        halted = hold_off | ~sampled | full
        self._learn_idle_usage(index, usage, (pods == 0) & ~halted)
        idle_usage, no_usage = zero_if_nan(self._idle_usage[index]), np.zeros_like(usage)
        idle, empty = capacity_signal(np.stack([idle_usage, no_usage]), workload)
        unit = self._unit(idle)
        self._learn_cost(index, signal / unit, empty / unit, halted)
        baseline = np.atleast_1d(self._estimator.baseline)[index] * unit
        cost = np.atleast_1d(self._estimator.cost)[index] * unit
        report = Report(
            at_s=at,
            usage=usage,
            capacity_signal=signal,
            baseline=baseline,
            pod_cost=cost,
            pods=pods,
            pod_capacity=self._pod_capacity(
                signal=signal,
                full=full,
                baseline=baseline,
                cost=cost,
                pods=pods,
                max_pods=self._max_pods[index],
                predicted=hold_off | ~sampled,
                blind=blind,
            ),
            exchange_due=self._exchange_due(index, own, at),
            subspace=own,
        )
        return first_of(report) if self._scalar else report

    def exchanged(self, at: float, nodes: ArrayLike | None = None) -> None:
        """Note that `nodes` (all by default) have sent their own subspace to the aggregator."""
        index = self._index(nodes)
        self._exchanged[index] = self._own(index).workload
        self._exchanged_at[index] = at

    def save(self) -> dict[str, FloatArray]:
        """Everything the model knows, as named arrays (copies): what a restart continues from."""
        saved = {name: np.array(array, dtype=np.float64) for name, array in self._arrays().items()}
        saved["rebase"] = np.full(self._nodes, float(self.variant.rebase))
        return saved | {f"{_ESTIMATOR}{name}": array for name, array in self._estimator.save().items()}

    def reset(self, nodes: ArrayLike) -> None:
        """Forget everything that was learned about `nodes`, because they were restarted or replaced.

        Raises
        ------
        InvalidInput
            If there is no such node.
        """
        index = self._index(nodes)
        state = self.save()
        blank = NodeModel(self.variant, self._nodes, self.resources, self._max_pods).save()
        for name, array in state.items():
            array[index] = blank[name][index]
        self.restore(state)

    def restore(self, state: Mapping[str, ArrayLike], now: float | None = None) -> None:
        """Continue from what `save` of a model of the same variant and shape returned.

        Pods may have come and gone since: `reconcile` afterwards.

        Parameters
        ----------
        state : mapping of str to array_like
        now : float, optional
            The present time, if a new clock drives the model (the machine was restarted): later times are forgotten.

        Raises
        ------
        InvalidState
            If an array is missing, has another shape or holds what no model learns; nothing is changed then.
        """
        shapes = {name: array.shape for name, array in self._arrays().items()}
        arrays = checked_state(state, shapes | {"rebase": (self._nodes,)})
        if not (arrays["rebase"] == float(self.variant.rebase)).all():
            raise InvalidState(
                f"the state was learned without rebase={self.variant.rebase}, which {self.variant.name} has: its "
                f"baseline and cost are in another unit; delete it"
            )
        estimator = ESTIMATORS[self.variant.estimator](self.variant.kalman)
        estimator.restore({name.removeprefix(_ESTIMATOR): state[name] for name in state if name.startswith(_ESTIMATOR)})
        if estimator.save()["baseline"].shape != (self._nodes,):
            raise InvalidState(f"the saved estimator does not hold {self._nodes} nodes; delete the state")
        if now is not None:
            for name in TIMES:
                arrays[name] = np.where(arrays[name] > now, -np.inf, arrays[name])
        for name, current in self._arrays().items():
            current[...] = arrays[name]
        self._estimator = estimator

    def _arrays(self) -> dict[str, AnyArray]:
        """The model's state by name, for saving, without the estimator's."""
        assert self._ema.value is not None
        assert self._ema.deviating is not None
        own = {name: getattr(self, f"_{name}") for name in BOUNDS if name not in ("smoothed", "deviating", "rebase")}
        return {"smoothed": self._ema.value, "deviating": self._ema.deviating} | own

    def _per_node(self, name: str, values: AnyArray) -> AnyArray:
        if common_shape(f"{name} and nodes", values.shape, (self._nodes,)) != (self._nodes,):
            raise InvalidInput(f"{name} must be one value or {self._nodes}, got shape {values.shape}")
        return np.broadcast_to(values, (self._nodes,))

    def _index(self, nodes: ArrayLike | None) -> IntArray:
        if nodes is None:
            return np.arange(self._nodes)
        index = np.atleast_1d(np.asarray(nodes))
        if not index.size:
            return np.zeros(0, dtype=np.int64)
        # A mask would be taken for the node numbers 0 and 1.
        if index.ndim > 1 or not np.issubdtype(index.dtype, np.integer):
            raise InvalidInput(f"nodes must be a list of node numbers, got {nodes!r}; np.flatnonzero reads a mask")
        if index.min() < 0 or index.max() >= self._nodes:
            raise InvalidInput(f"nodes must be in [0, {self._nodes - 1}], got {nodes!r}")
        return index.astype(np.int64)

    def _own(self, index: IntArray) -> Subspace:
        return Subspace.unchecked(self._own_basis[index], self._own_values[index])

    def _learn_own(self, index: IntArray) -> None:
        """Merge the batch into the node's own subspace; lost samples weigh nothing, an empty batch changes nothing."""
        size = self.variant.batch_size
        present = np.minimum(self._batched[index], size)
        known = self._has_own[index]
        some = present > 0
        # σ_1 grows with √(number of columns): a batch with holes is scaled to a full one's weight.
        batch = self._batch[index] * np.sqrt(size / np.maximum(present, 1))[:, None, None]
        weight = np.where(some, np.where(known, self.variant.batch_weight, 1.0), 0.0)
        old = self._own(index)
        merged = old.updated(batch, weight, self.variant.rank)
        rank = self._own_values.shape[-1]
        self._own_basis[index] = np.where(some[:, None, None], merged.basis[..., :rank], old.basis)
        self._own_values[index] = np.where(some[:, None], merged.singular_values[..., :rank], old.singular_values)
        self._has_own[index] = known | some
        self._batch[index] = 0.0
        self._batched[index] = 0

    def _blend(self, own: Subspace, index: IntArray) -> Subspace:
        """The node's own view merged with the global one, for the signal only.

        Fed back into the node's own view, it would drown what the node has seen itself.
        """
        weight = np.where(self._has_global[index], self.variant.global_weight, 0.0)
        weight = np.where(self._has_own[index], weight, np.where(self._has_global[index], 1.0, 0.5))
        seen = Subspace.unchecked(self._global_basis[index], self._global_values[index])
        return Subspace.merge(own, seen, 1.0 - weight, weight, rank=self.variant.rank)

    def _learn_idle_usage(self, index: IntArray, usage: FloatArray, idle: BoolArray) -> None:
        known = self._idle_usage[index]
        kept = np.where(np.isnan(known), 0.0, self.variant.idle_memory)
        mean = kept * zero_if_nan(known) + (1.0 - kept) * usage
        self._idle_usage[index] = np.where(idle[:, None], mean, known)

    def _unit(self, idle_signal: FloatArray) -> FloatArray:
        """The filters' unit: k of the idle node under the current average workload, or 1 for the thesis as written.

        k counts average workloads, and the average changes several-fold between an idle and a busy node. The share of
        the idle node's k that a pod takes does not change with the average.
        """
        if not self.variant.rebase:
            return np.ones_like(idle_signal)
        return np.where((idle_signal > 0) & np.isfinite(idle_signal), idle_signal, 1.0)

    def _learn_cost(self, index: IntArray, signal: FloatArray, empty: FloatArray, halted: BoolArray) -> None:
        everyone, everyone_empty = np.full((2, self._nodes), np.nan)
        everyone[index] = np.where(halted, np.nan, signal)
        everyone_empty[index] = empty
        self._estimator.update(everyone, self._pods, empty=everyone_empty)

    def _pod_capacity(
        self,
        *,
        signal: FloatArray,
        full: BoolArray,
        baseline: FloatArray,
        cost: FloatArray,
        pods: IntArray,
        max_pods: IntArray,
        predicted: BoolArray,
        blind: BoolArray,
    ) -> FloatArray:
        """Eq. 3.5 from the signal; Eq. 3.6 from the baseline where the signal is not to be trusted (`predicted`)."""
        room = np.maximum(max_pods - pods, 0)
        known = ~np.isnan(baseline)
        b, c = np.where(known, baseline, 1.0), np.where(known, cost, 1.0)
        from_signal = np.where(full, 0.0, pod_capacity(signal, c, room))
        from_baseline = pod_capacity_from_baseline(b, c, pods, room)
        # Before the first usable sample: what a fresh node advertises, unless a resource is full.
        fresh = np.minimum(np.where(full, 0.0, 1.0 / self.variant.kalman.initial_cost), room)
        # Where all telemetry has been zero for hours, no workload is left to count in, and the baseline is used.
        counted = np.where(predicted | np.isinf(signal), from_baseline, from_signal)
        return np.where(blind, 0.0, np.where(known, counted, fresh))

    def _exchange_due(self, index: IntArray, own: Subspace, at: float) -> BoolArray:
        """Whether the node's own average workload has drifted since the last exchange, or that was too long ago.

        A node in steady state has nothing new to say, but its peers may have.
        """
        old = at - self._exchanged_at[index] >= self.variant.exchange_age_s
        sent = self._exchanged[index]
        workload = own.workload
        moved, length = np.linalg.norm([workload - sent, workload], axis=-1)
        never = np.isnan(sent).any(axis=-1)
        due: BoolArray = self._has_own[index] & (never | old | ~(moved <= self.variant.exchange_drift * length))
        return due


_ESTIMATOR = "estimator_"
"""Prefix of the names of the arrays that the estimator saves."""
