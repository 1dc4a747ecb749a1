"""What a killed session leaves of its nodes is removed by the next one that looks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from testbed.clusters.kind import KindMaker
from testbed.clusters.lifecycle import sweep
from testbed.clusters.registry import Registry

pytestmark = pytest.mark.cluster

KILLED = """
import sys, time
from pathlib import Path
# The cluster that the next session removes is made by the command kind, whether pytest-kind is there or not.
sys.modules["pytest_kind"] = None
from testbed.clusters.kind import KindMaker
from testbed.clusters.lifecycle import ClusterLife
from testbed.clusters.registry import Registry
from testbed.clusters.wishes import Wishes

print(ClusterLife(KindMaker(workers=1), Wishes(sys.argv[2]), Registry(Path(sys.argv[1]))).open().name, flush=True)
time.sleep(60)
"""


def test_what_a_killed_session_leaves_is_removed_by_the_next(tmp_path, carico_provider):
    maker, registry = KindMaker(), Registry(tmp_path)
    # The name of this test's own folder: what runs beside it has another.
    command = [sys.executable, "-c", KILLED, str(tmp_path), f"killed-{tmp_path.parent.name.rpartition('-')[2]}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as session:
        assert session.stdout is not None
        name = session.stdout.readline().strip()
        session.kill()
    try:
        assert len(maker.nodes(name)) == 2
        with registry.locked():
            said = list(sweep(registry, {maker.kind: maker}, kept=False))
        assert said == [f"cluster {name} is removed: its run was killed"]
        assert maker.nodes(name) == []
        assert registry.all() == []
    finally:
        maker.delete(name, tmp_path)
