"""The stand-in by hand: `PYTHONPATH=tests:code python -m kaggle_machines FOLDER [COMPETITIONS ...]`.

Prints what to set for `kaggle` and `kwb` (with SOURCE=kaggle) in another terminal, and serves until Ctrl+C.
"""

import sys
import time
from pathlib import Path

from .machines import Machines

if __name__ == "__main__":
    folders = [Path(each).absolute() for each in sys.argv[1:]]
    if not folders:
        sys.exit(__doc__)
    with Machines(folders[0], folders[1:]) as machines:
        print("unset no_proxy NO_PROXY KAGGLE_USERNAME KAGGLE_KEY")
        for name, value in machines.variables().items():
            print(f"export {name}={value}")
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            pass
