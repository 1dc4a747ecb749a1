"""Namespaces on a real cluster: the testbed's own and one for every repetition; and waiting for a clean cluster.

Only namespaces that bear our label are removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from carico.errors import KubeError
from testbed.real.api import ClusterApi
from testbed.real.waiting import wait_until

TESTBED_NAMESPACE = "carico-testbed"
"""The testbed's own namespace in a cluster that it has made; it outlives runs."""
CLEAN_TIMEOUT_S = 300.0
ACCOUNT_TIMEOUT_S = 60.0


@contextmanager
def namespace_of_run(api: ClusterApi, name: str, run: str) -> Iterator[None]:
    """Create a namespace in which pods can be created, and remove it when the context ends, even by an error.

    After a normal end its pods are gone; the namespace itself takes some seconds more: see `wait_until_clean`.

    Raises
    ------
    WaitTimedOut
        If the namespace is not usable, or its pods are not gone, in time.
    KubeError
        If the API server does not answer or refuses.
    """
    try:
        api.create_namespace(name, run)
        wait_until_pods_can_be_created(api, name)
        yield
    except BaseException as error:
        try:
            api.delete_namespace(name)
        except KubeError as another:  # the next run removes it; the first error is the one to report
            error.add_note(f"namespace {name} is left: {another}")
        raise
    # Deleting the namespace alone would end its pods only some seconds later.
    empty(api, name)
    api.delete_namespace(name)


@contextmanager
def borrowed(api: ClusterApi, namespace: str) -> Iterator[None]:
    """Use a namespace that stays; remove its Jobs and pods when the context ends, even by an error.

    Raises as `namespace_of_run` does.
    """
    try:
        yield
    except BaseException as error:
        try:
            api.delete_work(namespace)
        except KubeError as another:  # the next run removes it
            error.add_note(f"pods are left in namespace {namespace}: {another}")
        raise
    empty(api, namespace)


def empty(api: ClusterApi, namespace: str) -> None:
    """Remove all Jobs and pods of a namespace, and wait until they are gone; see `wait_until`."""
    api.delete_work(namespace)
    wait_until_empty(api, namespace)


def wait_until_pods_can_be_created(api: ClusterApi, namespace: str, timeout_s: float = ACCOUNT_TIMEOUT_S) -> None:
    """Wait until a namespace has the service account of its pods; see `wait_until`."""
    wait_until(
        f"namespace {namespace} has its service account",
        lambda: "" if api.has_service_account(namespace) else "it has none",
        timeout_s,
    )


def wait_until_empty(api: ClusterApi, namespace: str, timeout_s: float = CLEAN_TIMEOUT_S) -> None:
    """Wait until a namespace has no pods any more; see `wait_until`."""

    def lacking() -> str:
        left = len(api.pods_in(namespace).list()[0])
        return f"there are still {left}" if left else ""

    wait_until(f"the pods of {namespace} are gone", lacking, timeout_s)


def wait_until_clean(api: ClusterApi, timeout_s: float = CLEAN_TIMEOUT_S) -> None:
    """Remove the namespaces of earlier repetitions and the pods in our own, and wait until all are gone.

    See `wait_until`.
    """

    def lacking() -> str:
        left = [one["metadata"]["name"] for one in api.namespaces() if one["metadata"]["name"] != TESTBED_NAMESPACE]
        for name in left:
            api.delete_namespace(name)
        return f"there are still {', '.join(left)}" if left else ""

    empty(api, TESTBED_NAMESPACE)
    wait_until("the namespaces of earlier repetitions are gone", lacking, timeout_s)
