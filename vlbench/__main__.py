"""`python -m vlbench`: the same as `vlbench`."""

import sys

from vlbench.cli import main

sys.exit(main())
