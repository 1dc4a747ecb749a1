"""Runs a page of the documentation as a reader would: writes its files, and types its commands."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\S+\.(?:py|yaml|toml))\n")
_PROGRAMS = {
    "carico-testbed": [sys.executable, "-m", "testbed"],
    "pytest": [sys.executable, "-m", "pytest"],
    "sed": ["sed"],
}


class HowTo:
    """A page, followed in a folder.

    A block whose first line is a comment with a file's name is that file. Other blocks of Python are not run.
    """

    def __init__(self, page, folder):
        self.blocks = _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
        self.folder = folder

    def write_files(self):
        """Write all files, and return their lines by name."""
        found = {}
        for _, content in self.blocks:
            if named := _FILE.match(content):
                text = content[named.end() :]
                (self.folder / named[1]).write_text(text, encoding="utf-8")
                found[named[1]] = text.splitlines()
        return found

    @property
    def commands(self):
        """The commands of all shell blocks, with continued lines joined."""
        lines = (line for kind, content in self.blocks if kind == "sh" for line in _joined(content))
        return [line for line in lines if line.split()[0] in _PROGRAMS]

    def run(self, file):
        """Run one of the page's Python files, and return what it printed."""
        return self._done([sys.executable, file], 0)

    def type(self, command, code=0):
        """Run a command, which must end with this exit code, and return what it printed."""
        program, *arguments = shlex.split(command, comments=True)
        return self._done([*_PROGRAMS[program], *arguments], code)

    def _done(self, command, code):
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(ROOT), "CI": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def _joined(content):
    return [line for line in content.replace("\\\n", " ").splitlines() if line.strip()]
