"""The subcommands of `carico`: each module's `add` declares the arguments and sets the function that runs the command.

A module imports at its top only what every installation has; packages of an extra are imported when the command runs.
"""

from __future__ import annotations

import argparse
from typing import TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The object to which `add` adds commands."""
