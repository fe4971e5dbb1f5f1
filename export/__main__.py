"""Old name of `headlight export`, `python -m export`, kept for one release."""

import sys

from headlight.cli.main import main

sys.stderr.write("python -m export is now: headlight export\n")
sys.exit(main(["export", *sys.argv[1:]]))
