"""Waits for files that other containers make: ``python -m carico.waiting FILE...``.

An init container runs it before those that need the files. Probes of the others could look for the files, too, but each
probe would start a program, for which a node without CPU left takes longer than a probe may. It uses only the standard
library, logs what is missing twice a minute, and exits with code 0 once all files are there.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from carico.logs import set_up_logs

_log = logging.getLogger("carico.waiting")

_LOOK_EVERY_S = 0.5
_TELL_EVERY_S = 30.0


def wait_for_files(files: Sequence[Path], sleep: Callable[[float], None] = time.sleep) -> None:
    """Return when all files are there.

    A file counts from the moment that it exists, so it must get its name only when it is whole.

    Parameters
    ----------
    files : sequence of Path
    sleep : callable, optional
        Waits for some seconds.
    """
    looks = 0
    while missing := [str(file) for file in files if not file.exists()]:
        looks += 1
        if looks % round(_TELL_EVERY_S / _LOOK_EVERY_S) == 0:
            _log.warning("waiting for %s, which another container makes", ", ".join(missing))
        sleep(_LOOK_EVERY_S)


def main(arguments: Sequence[str] | None = None) -> int:
    """Wait, until SIGTERM at most; return 0."""
    parser = argparse.ArgumentParser(prog="python -m carico.waiting", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    set_up_logs("json")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    wait_for_files(options.files)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
