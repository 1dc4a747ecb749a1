"""`python -m carico`: the command `carico`, for machines where it is not on the PATH."""

import sys

from carico.cli import main

if __name__ == "__main__":
    sys.exit(main())
