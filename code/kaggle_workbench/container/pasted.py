"""Keys and passwords that stand where only their names should: found by shape, never shown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kaggle_workbench.container.findings import Mark

_SHAPES = (
    ("NVIDIA API key", re.compile(r"\bnvapi-[A-Za-z0-9_-]{20,}")),
    ("Kaggle API token", re.compile(r"\bKGAT_[A-Za-z0-9_-]{16,}")),
    ("Hugging Face token", re.compile(r"\bhf_[A-Za-z0-9]{20,}")),
    ("GitHub token", re.compile(r"\b(ghp_|gho_|ghs_|github_pat_)[A-Za-z0-9_]{20,}")),
    ("OpenAI or Anthropic key", re.compile(r"\bsk-[A-Za-z0-9_-]{20,}")),
    ("AWS access key", re.compile(r"\b(AKIA|ASIA)[0-9A-Z]{16}\b")),
    ("Google API key", re.compile(r"\bAIza[0-9A-Za-z_-]{35}")),
    ("Slack token", re.compile(r"\bxox[abprs]-[0-9A-Za-z-]{10,}")),
    (
        "database address with a password",
        re.compile(r"\b[a-z][a-z0-9+]*://[^\s:@/<>$]+:(?!(?i:pass(word)?|secret|\*+)@)[^\s:@/<>$]+@"),
    ),
    ("private key", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")),
    # Legacy Kaggle keys are 32 hexadecimal digits; image digests (sha256:) have 64 and are no secret.
    ("API key", re.compile(r"(?<![0-9A-Za-z:@])[0-9a-f]{32}(?![0-9A-Za-z])")),
)


def find_pasted(text: str) -> Iterator[tuple[Mark, str]]:
    """The place and kind of everything in `text` that looks like a key, one a line."""
    for number, line in enumerate(text.splitlines(), start=1):
        for kind, shape in _SHAPES:
            found = shape.search(line)
            if found:
                yield Mark(number, found.start() + 1), kind
                break
