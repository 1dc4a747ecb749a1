"""The capacity signal k (thesis §3.4) and the Pod-Capacity that it becomes (thesis §3.5).

k counts how many units of the learned average workload σ_1 u_1 fit on top of the current usage before one resource is
full; Pod-Capacity counts pods. Pure functions; every argument broadcasts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from carico.arrays import FloatArray, common_shape, finite, numbers
from carico.errors import InvalidInput

MAX_PODS = 110
"""The kubelet's default limit of pods per node (`maxPods`)."""


def capacity_signal(usage: ArrayLike, workload: ArrayLike) -> FloatArray:
    """Return k = min_i (1 - y_i) / (σ_1 u_1)_i, never below 0 (thesis §3.4).

    A resource with zero workload sets no limit, except that a full resource gives 0 whatever the workload is. If all of
    the workload is zero, the result is `inf`: nothing is known that could fill the node.

    Parameters
    ----------
    usage : array_like, shape (..., d)
        Current usage y of each resource, 0 free, 1 (or more) full.
    workload : array_like, shape (..., d)
        σ_1 u_1, non-negative.

    Returns
    -------
    ndarray, shape (...)
        k in units of the average workload, in [0, inf].

    Raises
    ------
    InvalidInput
        If a number is negative or not finite, or the shapes do not fit.

    Examples
    --------
    >>> capacity_signal([0.5, 0.2], [0.25, 0.1]).item()
    2.0
    """
    y = finite("usage", usage, low=0.0)
    w = finite("workload", workload, low=0.0)
    if y.ndim < 1 or w.ndim < 1 or y.shape[-1] != w.shape[-1] or y.shape[-1] == 0:
        raise InvalidInput(f"usage and workload must list the same resources, got shapes {y.shape} and {w.shape}")
    free = np.maximum(1.0 - y, 0.0)
    limit = np.full(common_shape("usage and workload", free.shape, w.shape), np.inf)
    # A workload too small to divide by sets no limit either: the quotient overflows to inf.
    with np.errstate(over="ignore"):
        np.divide(free, w, out=limit, where=w > 0)
    k: FloatArray = np.minimum.reduce(np.where(free > 0, limit, 0.0), axis=-1)
    return k


def pod_capacity(signal: ArrayLike, cost: ArrayLike, max_pods: ArrayLike = MAX_PODS) -> FloatArray:
    """Return how many more pods fit, from the current signal: k / cost (thesis Eq. 3.5).

    Parameters
    ----------
    signal : array_like
        Capacity signal k >= 0; `inf` (nothing known) gives `max_pods`.
    cost : array_like
        Drop of the signal per pod, >= 0.
    max_pods : array_like
        Largest number returned: the node's maximum number of pods, or what its running pods leave of that.

    Raises
    ------
    InvalidInput
        If a number is negative or NaN.
    """
    k, c, most = _non_negative("signal", signal), _non_negative("cost", cost), _non_negative("max_pods", max_pods)
    common_shape("signal, cost and max_pods", k.shape, c.shape, most.shape)
    return np.minimum(_quotient(k, c), most)


def pod_capacity_from_baseline(
    baseline: ArrayLike, cost: ArrayLike, pods: ArrayLike, max_pods: ArrayLike = MAX_PODS
) -> FloatArray:
    """Return how many more pods fit, without the current signal: baseline / cost - pods, never below 0 (Eq. 3.6).

    For moments when the signal is not to be trusted, such as container churn.

    Raises
    ------
    InvalidInput
        If a number is negative or NaN, or the number of pods infinite.
    """
    b, c = _non_negative("baseline", baseline), _non_negative("cost", cost)
    n, most = finite("pods", pods, low=0.0), _non_negative("max_pods", max_pods)
    common_shape("baseline, cost, pods and max_pods", b.shape, c.shape, n.shape, most.shape)
    return np.minimum(np.maximum(_quotient(b, c) - n, 0.0), most)


def _non_negative(name: str, values: ArrayLike) -> FloatArray:
    array = numbers(name, values)
    if not (array >= 0).all():
        raise InvalidInput(f"{name} must not be negative or NaN, got {array[~(array >= 0)].flat[0]:g}")
    return array


def _quotient(amount: FloatArray, cost: FloatArray) -> FloatArray:
    """Amount / cost; an amount of 0 gives 0 even at no cost, an infinite amount gives `inf` at any cost."""
    result = np.where((amount > 0) & (cost >= 0), np.inf, 0.0)  # in the shape that both broadcast to
    with np.errstate(over="ignore"):
        np.divide(amount, cost, out=result, where=(amount > 0) & (amount < np.inf) & (cost > 0))
    return result
