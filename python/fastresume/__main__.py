"""`python -m fastresume` is the command `fastresume`."""

import sys

from fastresume.cli import main

if __name__ == "__main__":
    sys.exit(main())
