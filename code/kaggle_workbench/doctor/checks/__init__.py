"""The checks by topic: each module has a list `CHECKS`, and functions from facts to a result."""
