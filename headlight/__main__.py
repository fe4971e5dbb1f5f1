"""`python -m headlight`: the command line."""

import sys

from headlight.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
