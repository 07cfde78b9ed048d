"""Kaggle's secrets as a notebook pushed by the API meets them: none is attached to it, ever."""

import json
import os


class CredentialError(Exception):
    """No token to ask with."""


class BackendError(Exception):
    """The service refused."""


class UserSecretsClient:
    """As in Kaggle's image, without its service behind."""

    def __init__(self) -> None:
        if not os.environ.get("KAGGLE_USER_SECRETS_TOKEN"):
            raise CredentialError("A JWT Token is required to use the UserSecretsClient, but none found in environment")

    def get_secret(self, label: str) -> str:
        """The secret of that label."""
        if os.environ.get("KAGGLE_STANDIN_ONLINE") != "1":
            raise ConnectionError("Connection error trying to communicate with service.")
        held = json.loads(os.environ.get("KAGGLE_STANDIN_SECRETS", "{}"))
        if label not in held:
            answer = {
                "errors": [f"No user secrets exist for kernel id 1 and label {label}."],
                "error": {"code": 5},
                "wasSuccessful": False,
            }
            raise BackendError(f"Unexpected response from the service. Response: {answer}.")
        return str(held[label])
