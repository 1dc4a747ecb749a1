"""Programs that decide what a sweep measures: the user's modules with what they import, and this project's packages."""

import sys

import pytest

from testbed.sweep.programs import OURS, hashes_of


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Writes modules of the user's own, which can be found."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])

    def write(**sources):
        for name, source in sources.items():
            file = tmp_path / f"{name.replace('__in__', '/')}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(source)
        sys.path_importer_cache.clear()

    return write


def own(names):
    return sorted(set(hashes_of(names)) - set(OURS))


def test_all_that_a_module_imports_counts_wherever_it_does(modules):
    modules(
        mine_a="import json, numpy\nimport mine_b\nfrom carico.errors import CaricoError\n",
        mine_b="def later():\n    from mine_c import x\n",
        mine_c="raise RuntimeError('nothing is imported')\n",
        mine_d="",
    )
    assert own(["mine_a"]) == ["mine_a", "mine_b", "mine_c"]
    assert own(["mine_c"]) == ["mine_c"]


def test_modules_of_packages_are_found_by_their_relative_names(modules):
    modules(
        mine_p__in____init__="",
        mine_p__in__fit="from . import near\nfrom .deep.far import x\n",
        mine_p__in__near="",
        mine_p__in__deep__in__far="from ..near import y\n",  # the folder has no __init__.py
        mine_p__in__other="",
    )
    assert own(["mine_p.fit"]) == ["mine_p", "mine_p.deep.far", "mine_p.fit", "mine_p.near"]


def test_installed_packages_count_only_if_they_have_the_module(modules, tmp_path, monkeypatch):
    installed = tmp_path / "site-packages"
    monkeypatch.setattr(sys, "path", [*sys.path, str(installed)])
    (installed / "mine_i").mkdir(parents=True)
    for name, source in (("__init__", ""), ("fit", "from mine_i import near\n"), ("near", "")):
        (installed / "mine_i" / f"{name}.py").write_text(source)
    modules(mine_u="import mine_i.fit\n")
    assert own(["mine_u"]) == ["mine_u"]
    assert own(["mine_i.fit"]) == ["mine_i", "mine_i.fit", "mine_i.near"]


def test_this_projects_packages_count_whether_or_not_they_are_imported(tmp_path, monkeypatch):
    before = hashes_of([])
    assert sorted(before) == sorted(OURS)
    (tmp_path / "added.py").write_text("")
    import workloads

    monkeypatch.setattr(workloads.__spec__, "submodule_search_locations", [*workloads.__path__, str(tmp_path)])
    after = hashes_of([])
    assert [name for name in OURS if before[name] != after[name]] == ["workloads"]
