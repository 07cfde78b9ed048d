"""`python -m kaggle_workbench` is the command `kwb`."""

import sys

from kaggle_workbench.cli import main

sys.exit(main())
