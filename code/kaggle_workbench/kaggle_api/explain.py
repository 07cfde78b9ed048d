"""Kaggle's refusals and faults in plain words: what happened, the server's reason, what to do."""

from __future__ import annotations

import email.utils
import errno
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC

from kaggle_workbench.kaggle_api.credentials import KEYS_PAGE
from kaggle_workbench.kaggle_api.endpoint import KAGGLE_WEB
from kaggle_workbench.kaggle_api.errors import (
    AcceleratorError,
    ClientError,
    ClosedError,
    CredentialsMissingError,
    CredentialsRefusedError,
    DailyLimitError,
    DeniedError,
    DiskError,
    GoneError,
    KaggleError,
    NotebooksOnlyError,
    PhoneError,
    RateLimitError,
    RulesError,
    ServerError,
    TimeLimitError,
    UnexpectedError,
    UnknownCompetitionError,
    UnreachableError,
)
from kaggle_workbench.kaggle_api.process import Fault


@dataclass(frozen=True)
class About:
    """What a call was about, for the sentence.

    Attributes:
        label: The server's name for people.
        slug: The competition; "" when the call is about none.
        web: Address of the server's pages.
        source: Where the credentials came from; "" when there are none.
        secrets: Values to be masked.
    """

    label: str
    slug: str
    web: str
    source: str
    secrets: Sequence[str] = ()


def explain(fault: Fault, about: About) -> KaggleError:
    """The error for people that a failed call amounts to."""
    reason = mask(" ".join(fault.reason.split()), about.secrets)
    maker = _KINDS.get(fault.kind, _other)
    error = maker(fault, reason, about)
    error.step = str(fault.details.get("step") or "")
    return error


def retry_after_s(header: str | None) -> float | None:
    """Seconds to wait by a Retry-After header, which holds seconds or an HTTP date; None when unreadable."""
    if not header:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        moment = email.utils.parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - time.time())


def mask(text: str, secrets: Sequence[str]) -> str:
    """Take secrets out of a text: known values, users in addresses, and the signed part of storage addresses."""
    for secret in secrets:
        text = text.replace(secret, "***") if secret else text
    text = re.sub(r"(://)[^/@\s]+@", r"\1***@", text)
    return re.sub(r"(https?://[^\s?'\"]+)\?[^\s'\")]+", r"\1", text)


def _http(fault: Fault, reason: str, about: About) -> KaggleError:
    status = int(fault.details["status"])
    said = f' {_start(about.label)} says: "{reason.rstrip(".")}."' if reason else ""
    words = " ".join([reason, *fault.details.get("codes", [])])
    for pattern, statuses, maker in _REASONS:
        if status in statuses and re.search(pattern, words, re.IGNORECASE):
            return maker(said, reason, about)
    if status == 401:
        return _refused(said, reason, about)
    if status == 404:
        return _gone(said, reason, about)
    if status == 429:
        return _too_many(said, reason, retry_after_s(fault.details.get("retry_after")), about)
    if status >= 500 or status < 400 or fault.details.get("storage"):
        # A storage address that refuses has expired: the next try gets a fresh one.
        who = f"the storage of {about.label}" if fault.details.get("storage") else about.label
        return ServerError(
            f"{_start(who)} is out of order at the moment (HTTP {status}).{said}",
            hint="This is not your doing: try again in a few minutes.",
            reason=reason,
            maybe_done=True,
        )
    return DeniedError(
        f"{_start(about.label)} refused the request (HTTP {status}).{said}",
        hint=f"See {_page(about)} for what the competition asks." if about.slug else "",
        reason=reason,
    )


def _start(label: str) -> str:
    """A name at the start of a sentence."""
    return label[:1].upper() + label[1:]


def _page(about: About, tail: str = "") -> str:
    return f"{about.web}/competitions/{about.slug}{tail}"


def _rules(said: str, reason: str, about: About) -> KaggleError:
    return RulesError(
        f"The rules of {about.slug} are not accepted yet.{said}",
        hint=f"Open {_page(about, '/rules')}, accept them there (it cannot be done from here), then run this again.",
        reason=reason,
    )


def _phone(said: str, reason: str, about: About) -> KaggleError:
    return PhoneError(
        f"Your account needs a verified phone number for this.{said}",
        hint=f"Verify it at {about.web}/settings, then run this again.",
        reason=reason,
    )


def _daily(said: str, reason: str, about: About) -> KaggleError:
    hours = re.search(r"\((\d+ (?:hours?|minutes?)) from now\)", reason)
    return DailyLimitError(
        f"Today's submissions to {about.slug} are used up; nothing was submitted.{said}",
        hint=f"Try again in {hours.group(1)}." if hours else "Try again after midnight UTC.",
        reason=reason,
    )


def _closed(said: str, reason: str, about: About) -> KaggleError:
    return ClosedError(
        f"{about.slug} takes no submissions any more; nothing was submitted.{said}",
        hint=f"See {_page(about)} for its dates; another competition is chosen with COMPETITION.",
        reason=reason,
    )


def _notebooks_only(said: str, reason: str, about: About) -> KaggleError:
    return NotebooksOnlyError(
        f"{about.slug} takes notebooks, not files; nothing was submitted.{said}",
        hint=f"Submit from a notebook on Kaggle itself: {_page(about, '/code')}",
        reason=reason,
    )


def _accelerator(said: str, reason: str, about: About) -> KaggleError:
    return AcceleratorError(
        f"The notebook used an accelerator that {about.slug} does not allow; nothing was submitted.{said}",
        hint=f"Choose another one in the notebook's settings and run it again; {_page(about, '/rules')} says which.",
        reason=reason,
    )


def _unknown(said: str, reason: str, about: About) -> KaggleError:
    return UnknownCompetitionError(
        f"There is no competition {about.slug!r} for this account at {about.label}.{said}",
        hint=f"Check COMPETITION: it is the last part of the competition's address, {about.web}/competitions/...",
        reason=reason,
    )


def _not_yours(said: str, reason: str, about: About) -> KaggleError:
    return DeniedError(
        f"{_start(about.label)} does not let this account do that; nothing was started.{said}",
        hint="A notebook or dataset of that name may be somebody else's or not there; or the token lacks the right. "
        f"See {about.web}/code and {about.web}/settings.",
        reason=reason,
    )


def _gone(said: str, reason: str, about: About) -> KaggleError:
    if not about.slug:
        return GoneError(f"{_start(about.label)} does not know what was asked for (any more).{said}", reason=reason)
    return GoneError(
        f"{about.slug} is not there (any more) at {about.label}.{said}",
        hint=f"Look at {_page(about)}: the competition may be over and gone, or its name misspelt.",
        reason=reason,
    )


def _refused(said: str, reason: str, about: About) -> KaggleError:
    renew = f"make a new token at {KEYS_PAGE} and put it there"
    if "kaggle auth login" in about.source:
        renew = "log in again with kaggle auth login"
    return CredentialsRefusedError(
        f"{_start(about.label)} does not accept your credentials ({about.source or 'source unknown'}).{said}",
        hint=f"They may be expired or revoked: {renew}, or remove them from there if others are to be used.",
        reason=reason,
    )


def _too_many(said: str, reason: str, wait_s: float | None, about: About) -> KaggleError:
    asked = f" It asks to wait {duration(wait_s)}." if wait_s is not None else ""
    return RateLimitError(
        f"{_start(about.label)} has had too many requests from you (HTTP 429).{asked}{said}",
        hint=f"Try again in {duration(wait_s)}." if wait_s else "Try again in half an hour.",
        reason=reason,
        retry_after_s=wait_s,
    )


def duration(seconds: float) -> str:
    """A time span for people: "30 s", "15 min", "2.5 h"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


_CLIENT = (400, 403, 404, 409, 412, 422)
# The real service's words, most telling first: one answer may hold several sentences.
_REASONS: tuple[tuple[str, tuple[int, ...], Callable[[str, str, About], KaggleError]], ...] = (
    (r"accept.*rules|rules.*accept|RulesAcceptanceRequired", _CLIENT, _rules),
    (r"phone|verify your (account|identity)", _CLIENT, _phone),
    (r"only accepts submissions from notebooks", _CLIENT, _notebooks_only),
    (r"cannot use .*(GPU|TPU|accelerator)", _CLIENT, _accelerator),
    (r"submissions have been disabled|competition (has ended|is over|is closed)|deadline", _CLIENT, _closed),
    (r"(daily|total|maximum).*(submission|allowance)|submission.*(limit|allowance)", _CLIENT, _daily),
    (r"permission '(kernels|kernelSessions|datasets|blobs)\.\w+' was denied", _CLIENT, _not_yours),
    (r"permission 'competitions\.\w+' was denied", _CLIENT, _unknown),
    (r"authentic|unauthorized", (400, 403), _refused),
)


def _login(fault: Fault, reason: str, about: About) -> KaggleError:
    if about.source:
        return _refused("", "", about)
    return credentials_missing()


def credentials_missing(detail: str = "") -> CredentialsMissingError:
    """The error for "no credentials anywhere"; `detail` is a sentence such as `credentials.half_pair`'s."""
    return CredentialsMissingError(
        "No Kaggle credentials were found" + (f". {detail}" if detail else "."),
        hint=f"Make a token at {KEYS_PAGE} and write it into secrets.env as KAGGLE_API_TOKEN=..., "
        "or work without an account: SOURCE=practice.",
    )


def _network(fault: Fault, reason: str, about: About) -> KaggleError:
    if about.web != KAGGLE_WEB:
        return UnreachableError(
            f"{_start(about.label)} does not answer any more: {_cause(reason)}.",
            hint="Run the same command again; it starts anew.",
            reason=reason,
            maybe_done=True,
        )
    return UnreachableError(
        f"{_start(about.label)} cannot be reached: {_cause(reason)}.",
        hint="Check the network connection, then run this again. SOURCE=practice works without a network.",
        reason=reason,
        maybe_done=True,
    )


def _proxy(fault: Fault, reason: str, about: About) -> KaggleError:
    if about.web != KAGGLE_WEB:
        # A local server is reached as a proxy; the user has set none.
        return _network(fault, reason, about)
    return UnreachableError(
        f"{_start(about.label)} cannot be reached through the proxy of your settings: {_cause(reason)}.",
        hint="Check https_proxy and http_proxy in the environment, then run this again.",
        reason=reason,
        maybe_done=True,
    )


def _certificate(fault: Fault, reason: str, about: About) -> KaggleError:
    return UnreachableError(
        f"{_start(about.label)}'s certificate is not accepted: {_cause(reason)}.",
        hint="If your network has its own certificate, name its file in REQUESTS_CA_BUNDLE.",
        reason=reason,
    )


def _time(fault: Fault, reason: str, about: About) -> KaggleError:
    return TimeLimitError(
        f"{_start(about.label)} did not answer within {duration(float(fault.details.get('limit_s', 0)))}.",
        hint="Check the network connection, or try again in a few minutes.",
        maybe_done=True,
    )


def _garbled(fault: Fault, reason: str, about: About) -> KaggleError:
    return ServerError(
        f"{_start(about.label)}'s answer cannot be read: {reason}.",
        hint="Something else may answer in its place (a sign-in page of the network, a proxy); open "
        f"{about.web} in a browser, then run this again.",
        reason=reason,
        maybe_done=True,
    )


def _install(fault: Fault, reason: str, about: About) -> KaggleError:
    return ClientError(
        f"The Kaggle client cannot be loaded: the Python package {reason!r} is not installed.",
        hint='Install it: pip install "kaggle>=2.2.5" six',
        reason=reason,
    )


def _disk(fault: Fault, reason: str, about: About) -> KaggleError:
    full = fault.details.get("errno") in (errno.ENOSPC, errno.EDQUOT)
    where = fault.details.get("path") or "the folder"
    return DiskError(
        "The disk is full; what has arrived is kept." if full else f"{where} cannot be written: {reason}.",
        hint="Free some space, then run the same command again: it goes on where it stopped."
        if full
        else "Make it writable for this user, or choose another folder.",
        reason=reason,
    )


def _died(fault: Fault, reason: str, about: About) -> KaggleError:
    return UnexpectedError(
        "The process of the kaggle client ended by itself" + (f": {reason}." if reason else "."),
        hint="It may have been out of memory; run the same command again.",
        reason=reason,
        maybe_done=True,
    )


def _other(fault: Fault, reason: str, about: About) -> KaggleError:
    return UnexpectedError(
        f"The kaggle client failed: {reason.rstrip('.') or fault.kind}.",
        hint="Run the same command again; if it fails again, report it with this message.",
        reason=reason,
        maybe_done=True,
    )


def _cause(reason: str) -> str:
    """The part of a connection error that tells people something."""
    for pattern, words in (
        (r"name resolution|getaddrinfo|nodename|Name or service", "its name cannot be resolved (no network?)"),
        (r"refused", "the connection was refused"),
        (r"unreachable", "the network is unreachable"),
        (r"timed out", "the connection timed out"),
        (r"reset|aborted|without response|IncompleteRead|broken", "the connection was cut"),
        (r"CERTIFICATE_VERIFY_FAILED", "it is signed by an authority that is not known here"),
    ):
        if re.search(pattern, reason, re.IGNORECASE):
            return words
    return reason.rstrip(".") or "the reason is unknown"


_KINDS: dict[str, Callable[[Fault, str, About], KaggleError]] = {
    "http": _http,
    "login": _login,
    "network": _network,
    "proxy": _proxy,
    "certificate": _certificate,
    "time": _time,
    "garbled": _garbled,
    "install": _install,
    "disk": _disk,
    "died": _died,
}
