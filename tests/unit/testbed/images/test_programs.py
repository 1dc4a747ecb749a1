"""Programs from Go modules: built once, kept by a digest of their inputs, all or none. Go is a script here."""

import re
import stat

import pytest

from testbed.errors import BuildFailed
from testbed.images.programs import MODULES, PROGRAM_SETS, Programs, ProgramSet
from testbed.results.run import Machine

GO = """#!/bin/sh
echo "$PWD: $*" >> {log}
echo "$GOGC $GOMEMLIMIT" >> {log}.memory
case $1 in
version) echo "{version}" ;;
list) printf 'a\\nb\\nc\\n' ;;
build)
    echo example.org/a >&2; echo example.org/b >&2
    {fails}
    while [ "$1" != -o ]; do shift; done
    echo "$CGO_ENABLED $3" > "$2" ;;
esac
"""
TOOLS = ProgramSet("tools", {"one": "example.org/one", "two": "example.org/two"})


@pytest.fixture
def modules(tmp_path):
    folder = tmp_path / "modules" / "tools"
    folder.mkdir(parents=True)
    folder.joinpath("go.mod").write_text("module tools\n\nrequire (\n\texample.org/one v1.34.4\n)\n")
    return folder


@pytest.fixture
def make(tmp_path, modules):
    """Return builders for the same folder with a given Go; its calls are in `go.log`."""

    def programs(version="go version go1.26", fails=""):
        go = tmp_path / "go"
        go.write_text(GO.format(log=tmp_path / "go.log", version=version, fails=fails))
        go.chmod(stat.S_IRWXU)
        return Programs(tmp_path / "kept", modules.parent, str(go))

    return programs


def test_programs_are_built_once_and_then_found(make, tmp_path):
    told = []
    folder = make().build(TOOLS, told.append)
    assert {file.name: file.read_text() for file in folder.iterdir()} == {
        "one": "0 example.org/one\n",
        "two": "0 example.org/two\n",
    }
    assert told[0] == "tools: looking up packages"
    assert told[-1] == "tools: two, 2 of at most 3 packages compiled"
    told.clear()
    assert make().build(TOOLS, told.append) == folder
    assert told == []
    assert [entry.name for entry in folder.parent.iterdir()] == [folder.name]


@pytest.mark.parametrize(
    ("memory_gib", "user", "wanted"),
    [(4, {}, "off 1GiB"), (2, {}, " "), (4, {"GOGC": "200", "GOMEMLIMIT": "3GiB"}, "200 3GiB")],
    ids=["much", "little", "as the user says"],
)
def test_compilers_use_more_memory_on_large_machines(make, tmp_path, monkeypatch, memory_gib, user, wanted):
    monkeypatch.setattr("testbed.images.programs.machine", lambda: Machine(2, "", memory_gib << 30, ""))
    for name in ("GOGC", "GOMEMLIMIT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in user.items():
        monkeypatch.setenv(name, value)
    make().build(TOOLS)
    assert set(tmp_path.joinpath("go.log.memory").read_text().splitlines()) == {wanted}


@pytest.mark.parametrize("change", ["module", "go", "version_of"])
def test_another_version_is_another_folder(make, modules, change):
    before = make().place(TOOLS)
    tools, version = TOOLS, "go version go1.26"
    if change == "module":
        modules.joinpath("main.go").write_text("package main")
    elif change == "go":
        version = "go version go1.27"
    else:
        tools = ProgramSet("tools", TOOLS.packages, version_of="example.org/one")
    assert make(version).place(tools) != before


def test_a_go_that_cannot_fetch_a_newer_one_is_refused(make):
    make("go version go1.21.13 linux/amd64").check_go()
    make("go version devel go1.27-1a2b3c linux/amd64").check_go()
    with pytest.raises(BuildFailed, match=r"too old .*\(go version go1\.19\.8 linux/amd64\): install 1\.24 or newer"):
        make("go version go1.19.8 linux/amd64").check_go()


def test_programs_report_the_version_of_their_module(make, tmp_path):
    make().build(ProgramSet("tools", {"one": "example.org/one"}, version_of="example.org/one"))
    built = tmp_path.joinpath("go.log").read_text()
    assert "-X k8s.io/component-base/version.gitVersion=v1.34.4" in built
    assert "gitMajor=1 -X k8s.io/component-base/version.gitMinor=34" in built


def test_a_build_that_fails_leaves_nothing_and_shows_its_last_lines(make, tmp_path):
    with pytest.raises(BuildFailed, match=re.compile(r"go build .* ended with 3:\nexample.org/a\nexample.org/b", re.S)):
        make(fails="exit 3").build(TOOLS)
    assert list(tmp_path.joinpath("kept").iterdir()) == []


def test_a_hanging_module_proxy_is_an_error(make, monkeypatch):
    monkeypatch.setattr("testbed.images.programs.STEP_S", 0.2)
    with pytest.raises(BuildFailed, match=r"go version did not end within 0 s: does the module proxy answer"):
        make(version='"; exec sleep 60; "').build(TOOLS)


def test_a_folder_that_cannot_be_made_is_named(make, tmp_path):
    tmp_path.joinpath("kept").write_text("a file")
    with pytest.raises(BuildFailed, match=r"cannot write to .*/kept \(File exists\)"):
        make().build(TOOLS)


def test_a_missing_go_is_reported_with_its_remedy(tmp_path, modules):
    with pytest.raises(BuildFailed, match=r"no command nowhere/go: install Go 1\.24 or newer"):
        Programs(tmp_path, modules.parent, "nowhere/go").build(TOOLS)


@pytest.mark.parametrize("programs", PROGRAM_SETS, ids=lambda programs: programs.name)
def test_every_set_has_its_module_with_all_versions_pinned(programs):
    module = MODULES / programs.name
    text = module.joinpath("go.mod").read_text()
    assert text.startswith(f"module carico.dev/images/{programs.name}\n")
    assert "go 1.24.0" in text
    assert module.joinpath("go.sum").is_file() or "require" not in text
    if programs.version_of is not None:
        assert Programs(module.parent).version(programs) == "v1.34.4"
