"""``python -m workloads.traces alibaba PODS.csv`` and ``python -m workloads.traces azure FILE.csv``."""

import signal
import sys

from workloads.traces.cli import main

if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end silently when the reader of a pipe is gone
    sys.exit(main())
