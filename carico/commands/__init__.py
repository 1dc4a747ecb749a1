"""The subcommands of `carico`: `add` of each module declares arguments and sets `run`, which takes them.

A module imports at its top what any installation has; what an extra brings is imported when the command is run.
"""

from __future__ import annotations

import argparse
from typing import TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What `add` adds commands to."""
