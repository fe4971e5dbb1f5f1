"""`python -m service`: the old name of `headlight serve`, kept for one release."""

import sys

from headlight.cli.main import main

sys.stderr.write("python -m service is now: headlight serve\n")
sys.exit(main(["serve", *sys.argv[1:]]))
