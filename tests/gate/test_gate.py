"""The gate of this project's own CI: CARICO must not become worse than when `baseline.json` was made.

After a change that is meant to change the figures, make the baseline anew and say in the commit what has changed:
``tox -e gate -- --carico-save-baseline=tests/gate/baseline.json``.
"""

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]
SCHEDULERS = ["carico", "carico:variant=demand"]


@pytest.mark.carico("pi-2000", SCHEDULERS, providers=["simulated"])
def test_short_pods(carico_results):
    assert set(carico_results) == set(SCHEDULERS)


@pytest.mark.carico("sklearn", SCHEDULERS, providers=["simulated"])
def test_pods_with_several_threads(carico_results):
    assert set(carico_results) == set(SCHEDULERS)


@pytest.mark.carico("isolation-one-node", ["carico:variant=demand"], providers=["simulated"])
def test_a_server_beside_a_job(carico_results):
    assert set(carico_results) == {"carico:variant=demand"}
