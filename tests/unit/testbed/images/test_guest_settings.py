"""What a guest accepts as its settings; the script's part up to the first change that it makes is run here."""

import os
import stat
import subprocess

import pytest

from testbed.images.image import RECIPES

SCRIPT = (RECIPES / "guest" / "files" / "usr" / "local" / "bin" / "carico-guest").read_text(encoding="utf-8")
CHECKS = SCRIPT.split("\necho ", 1)[0]
KEY = "AAAAC3NzaC1lZDI1NTE5AAAAI" + "Ab+/" * 10 + "xyz"
GOOD = {"name": "carico-run-1", "address": "10.93.7.11/24", "gateway": "10.93.7.1", "key": KEY}


@pytest.fixture
def accepted(tmp_path):
    """A function that returns the settings that the script reads, or what it complains about."""
    assert "/etc/hostname" not in CHECKS

    def run(line, stored=None):
        words = tmp_path / "cmdline"
        words.write_text(line + "\n")
        store = tmp_path / "bin" / "xenstore-read"
        store.parent.mkdir(exist_ok=True)
        cases = "".join(
            f"vm-data/carico/{name}) printf '%s\\n' '{value}' ;;\n" for name, value in (stored or {}).items()
        )
        store.write_text(f"#!/bin/sh\ncase $1 in\n{cases}*) exit 1 ;;\nesac\n")
        store.chmod(stat.S_IRWXU)
        script = CHECKS.replace("/proc/cmdline", str(words)) + '\necho "$name $address $gateway $key"\n'
        environment = os.environ | {"PATH": f"{store.parent}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env=environment, check=False)
        return done.stdout.split() if done.returncode == 0 else done.stderr

    return run


def line_of(**settings):
    return " ".join(["root=/dev/xvda", *(f"carico.{name}={value}" for name, value in settings.items()), "psi=1"])


def test_settings_come_from_the_command_line_or_else_from_the_hypervisors_store(accepted):
    assert accepted(line_of(**GOOD)) == list(GOOD.values())
    assert accepted("root=/dev/xvda", GOOD) == list(GOOD.values())
    assert accepted(line_of(name="first"), GOOD)[0] == "first"


@pytest.mark.parametrize("name", GOOD)
def test_a_missing_setting_is_named(accepted, name):
    rest = {other: value for other, value in GOOD.items() if other != name}
    assert f"there is no setting {name}: give carico.{name}=" in accepted(line_of(**rest))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", "Upper"),
        ("name", "-dash"),
        ("name", "a" * 64),
        ("address", "10.93.7.11"),
        ("address", "10.93.7.1/24"),
        ("address", "10.93.7.255/24"),
        ("address", "10.93.256.11/24"),
        ("address", "10.93.7.11/28"),
        ("gateway", "10.93.7"),
        ("gateway", "gateway"),
        ("key", KEY[:-1]),
        ("key", "AAAAB3NzaC1yc2E" + KEY[15:]),
        ("key", KEY[:-1] + "*"),
    ],
)
def test_an_invalid_setting_is_refused(accepted, name, value):
    assert f"carico-guest: the setting {name} " in accepted(line_of(**(GOOD | {name: value})))


def test_a_setting_of_several_lines_is_refused(accepted):
    stored = GOOD | {"name": "good\nevil"}
    assert "the setting name has characters that none has" in accepted("root=/dev/xvda", stored)
