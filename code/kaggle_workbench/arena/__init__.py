"""The arena: a local server that speaks Kaggle's competition API and hosts practice competitions.

`launch.running` starts it as a child process for as long as a `with` block lasts; `launch.serve`
serves until it is stopped. What it answers follows what Kaggle's own client expects of the service.
"""
