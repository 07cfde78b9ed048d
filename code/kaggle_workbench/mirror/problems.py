"""What goes wrong with a MongoDB server, in plain words: the cause, and what mends it."""

from __future__ import annotations

from dataclasses import dataclass

from kaggle_workbench.errors import MissingError
from kaggle_workbench.mirror.address import Address

_ACCESS_LIST = (
    "In Atlas, open Network Access (IP Access List) and add this machine's address; addresses change, at home often "
    "daily, on Kaggle and Colab with each session."
)
_USER = (
    "Check user and password in MONGODB_URI (secrets.env). In Atlas it is a database user (Security, Database Access), "
    "not your Atlas login. Signs such as @ : / ? # in the password are written in percent form (@ is %40)."
)


@dataclass(frozen=True)
class Problem:
    """One kind of trouble.

    Attributes:
        cause: One sentence.
        mend: What to do.
        lasting: Whether asking again is of no use before somebody has changed something.
    """

    cause: str
    mend: str
    lasting: bool = False

    def as_error(self) -> MissingError:
        """The problem as an error that ends a command."""
        return MissingError(self.cause, hint=self.mend)


def explained(error: Exception, where: Address) -> Problem:
    """What an error of pymongo means.

    Args:
        error: As pymongo raised it.
        where: The address that was asked; its secrets never appear in the answer.
    """
    from pymongo import errors

    said = where.mask(str(error))
    if isinstance(error, errors.InvalidURI | errors.ConfigurationError | ValueError | TypeError):
        return _address(error, said, where)
    # After a first refusal the client has also been seen to say so as a lost connection.
    if isinstance(error, errors.OperationFailure) or "authentication failed" in said.lower():
        return _refusal(error, said, where)
    return _connection(said, where)


def _address(error: Exception, said: str, where: Address) -> Problem:
    from pymongo import errors

    unknown = any(word in said.lower() for word in ("dns", "does not exist", "resolution", "nameserver", "lifetime"))
    if isinstance(error, errors.ConfigurationError) and not isinstance(error, errors.InvalidURI) and unknown:
        return Problem(
            f"{where}: the name could not be looked up (DNS).",
            "Check the host in MONGODB_URI, and that this machine has internet. Behind some routers mongodb+srv:// "
            "names fail; Atlas then offers the longer mongodb:// form (Connect, Drivers, an older driver version).",
        )
    if isinstance(error, errors.InvalidURI) or not isinstance(error, errors.ConfigurationError):
        # pymongo's own words quote parts of the address, the password among them.
        return Problem(
            "MONGODB_URI is not a MongoDB address.",
            "It looks like mongodb://USER:PASSWORD@HOST:27017/ or mongodb+srv://USER:PASSWORD@HOST/. Signs such as "
            "@ : / ? # in user or password are written in percent form (@ is %40).",
            lasting=True,
        )
    return Problem(f"{where}: an option of MONGODB_URI does not fit ({_short(said)}).", "Correct it.", lasting=True)


def _refusal(error: Exception, said: str, where: Address) -> Problem:
    code, low = getattr(error, "code", None), said.lower()
    if "quota" in low or "out of disk" in low or code == 14031:
        return Problem(f"{where} has no space left for records.", "Delete old data there, or take a larger tier.")
    if code == 18 or "authentication failed" in low or "bad auth" in low:
        return Problem(f"{where} refuses this user or password.", _USER, lasting=True)
    if code == 13 or "not authorized" in low or "not allowed" in low or "requires authentication" in low:
        return Problem(
            f"{where} does not let this user read and write the database {where.database}.",
            f"Give the user the role readWrite on {where.database}. In Atlas: Database Access, edit the user, "
            "Read and write to any database.",
            lasting=True,
        )
    return Problem(f"{where} refused: {_short(said)}.", "Look at the server's log.")


def _connection(said: str, where: Address) -> Problem:
    low = said.lower()
    if "certificate" in low or "ssl" in low or "tls" in low:
        if where.is_atlas and "alert internal error" in low:
            return Problem(f"{where} does not let this machine's address in.", _ACCESS_LIST)
        return Problem(
            f"{where}: no secure connection (TLS): {_short(said)}.",
            "For a server with a certificate of its own, add tls=true&tlsCAFile=FILE to MONGODB_URI; for one without "
            "TLS leave tls out.",
        )
    if "refused" in low:
        return Problem(
            f"{where} refuses the connection: nothing answers there.",
            "Start the server, or correct host and port in MONGODB_URI.",
        )
    if any(
        words in low for words in ("name or service not known", "nodename nor servname", "getaddrinfo", "resolution")
    ):
        return Problem(f"{where}: there is no such host.", "Correct the host in MONGODB_URI; check the internet.")
    if where.is_atlas:
        return Problem(f"{where} does not answer.", f"{_ACCESS_LIST} A paused free cluster must be resumed there, too.")
    return Problem(
        f"{where} does not answer ({_short(said)}).",
        "Check host and port in MONGODB_URI, and firewalls between.",
    )


def _short(said: str) -> str:
    """Pymongo adds the state of the whole cluster to its sentence."""
    first = said.partition(", Timeout:")[0].partition(", full error:")[0].partition(" (configured timeouts")[0]
    return first.strip().rstrip(".")[:200]
