"""The kinds of error that the gateway raises; `explain` makes them of what the client reports."""

from __future__ import annotations

from kaggle_workbench.errors import MissingError, RefusedError, UsageError, WorkbenchError, WorkError


class KaggleError(WorkbenchError):
    """An error of the gateway.

    Attributes:
        reason: The server's own words, "" when there are none.
        maybe_done: The call may have had its effect all the same (it was cut off while it went on).
        retry_after_s: Seconds the server asks to wait; None when it does not say.
        step: The server's method that failed, such as `CreateSubmission`; "" when not known.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        reason: str = "",
        maybe_done: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.maybe_done = maybe_done
        self.retry_after_s = retry_after_s
        self.step = ""


class CredentialsMissingError(KaggleError, MissingError):
    """No credentials were found anywhere."""


class CredentialsRefusedError(KaggleError, MissingError):
    """The server does not accept the credentials."""


class UnreachableError(KaggleError, MissingError):
    """No connection: no network, a proxy, a certificate, a connection cut."""


class TimeLimitError(KaggleError, MissingError):
    """No answer within the time limit."""


class ServerError(KaggleError, MissingError):
    """The server failed (5xx), or answered what no client can read."""


class UploadError(KaggleError, MissingError):
    """A file did not get through; nothing was made of it."""


class RateLimitError(KaggleError, MissingError):
    """Too many requests, even after waiting as told."""


class DiskError(KaggleError, MissingError):
    """The disk is full or may not be written."""


class ClientError(KaggleError, MissingError):
    """The kaggle package is not installed or not whole."""


class RulesError(KaggleError, RefusedError):
    """The competition's rules are not accepted."""


class PhoneError(KaggleError, RefusedError):
    """The account's phone number is not verified."""


class DailyLimitError(KaggleError, RefusedError):
    """No submission is left for today."""


class ClosedError(KaggleError, RefusedError):
    """The competition takes no submissions any more."""


class NotebooksOnlyError(KaggleError, RefusedError):
    """The competition takes notebooks, not files."""


class AcceleratorError(KaggleError, RefusedError):
    """The notebook used an accelerator that the competition does not allow."""


class SessionsError(KaggleError, RefusedError):
    """As many sessions run as the account may have at once."""


class QuotaError(KaggleError, RefusedError):
    """The week's accelerator time is used up."""


class NoSuchNotebookError(KaggleError, RefusedError):
    """The name of a notebook cannot be used."""


class SourcesError(KaggleError, RefusedError):
    """A notebook was pushed with sources that the service does not know."""


class DeniedError(KaggleError, RefusedError):
    """The server refused, for a reason that has no kind of its own."""


class UnknownCompetitionError(KaggleError, UsageError):
    """There is no such competition, or this account may not see it."""


class GoneError(KaggleError, UsageError):
    """The thing asked for is not there (any more)."""


class UnexpectedError(KaggleError, WorkError):
    """The client failed in a way that has no kind of its own."""
