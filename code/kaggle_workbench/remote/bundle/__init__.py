"""One stage as one notebook that needs nothing of this project beside it.

`make` fills in the parameters, puts the helper package inside (or the address of the user's own repository), and adds
the cells that unpack it, take up a run that goes on, and lay out the results. What arrives there is `remote.arrival`.
"""

from kaggle_workbench.remote.bundle.make import MOST_BYTES, Bundle, make, together

__all__ = ["MOST_BYTES", "Bundle", "make", "together"]
