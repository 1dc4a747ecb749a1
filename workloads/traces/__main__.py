"""``python -m workloads.traces alibaba PODS.csv`` and ``python -m workloads.traces azure FILE.csv``."""

import signal
import sys

from workloads.traces.cli import main

if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end silently if the reader of a pipe has gone
    sys.exit(main())
