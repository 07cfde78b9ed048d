"""What all tests share."""

import os
import signal
from collections.abc import Generator

import pytest

# Started in the background (CI, nohup), pytest would hand "Ctrl-C is ignored" down to every command it tests.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What CI may lack: files that are not part of the repository, and a GPU.
MAY_SKIP_IN_CI = (
    "the public specs are not part of the repository",
    "the source tables are not part of the repository",
    "no NVIDIA GPU on this machine",
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a skipped test is a failure: there nothing that a test needs may be missing unseen."""
    report = yield
    if os.environ.get("CI") and report.skipped and not any(reason in str(report.longrepr) for reason in MAY_SKIP_IN_CI):
        report.outcome = "failed"
    return report
