"""The three stages: what a notebook opens, and running notebooks without a person."""
