"""The checks by topic: each module holds `CHECKS`. A new module here is found by itself."""

# As a person would look: the machine first, then the project. Topics that are not named come last.
ORDER = (
    "machine",
    "docker",
    "gpus",
    "wsl",
    "ports",
    "folders",
    "credentials",
    "kaggle",
    "build",
    "settings",
    "git",
)
