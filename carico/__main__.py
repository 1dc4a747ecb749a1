"""`python -m carico`: the same as the command `carico`, where that is not on the path."""

import sys

from carico.cli import main

if __name__ == "__main__":
    sys.exit(main())
