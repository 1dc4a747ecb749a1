"""Copies pods' names for an agent that may not see pods' logs: ``python -m carico.podevents LOGS COPY``.

It runs until SIGTERM, and exits with code 0; see `carico.podevents.pod_names`.
"""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path

from carico.logs import set_up_logs
from carico.podevents.folder_watch import folder_watch
from carico.podevents.pod_names import PodNames


def main() -> int:
    """Copy names until SIGTERM or Ctrl-C; return 0."""
    parser = argparse.ArgumentParser(prog="python -m carico.podevents", description=__doc__)
    parser.add_argument("logs", type=_folder, metavar="LOGS", help="where the kubelet keeps the logs of pods")
    parser.add_argument("copy", type=_folder, metavar="COPY", help="the folder that gets the names")
    options = parser.parse_args()
    set_up_logs("json")
    watch, stop = folder_watch(), threading.Event()

    def end(*_: object) -> None:
        stop.set()
        watch.wake()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    PodNames(options.logs, options.copy, watch).run(stop)
    watch.close()
    return 0


def _folder(text: str) -> Path:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {text}")
    return Path(text)


if __name__ == "__main__":
    raise SystemExit(main())
