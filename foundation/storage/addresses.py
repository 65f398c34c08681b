"""Addresses of servers, as variables of the environment name them."""

from __future__ import annotations

import os
import re

from foundation.errors import UsageError

_ADDRESS = re.compile(r"https?://[!-.0-~]+(?:/[!-~]*)?")


def server_address(*names: str) -> str:
    """The address of a server from the first of these variables that is set; "" if none is.

    Raises:
        UsageError: It is not an address, which the client would not survive.
    """
    for name in names:
        if value := os.environ.get(name, ""):
            if name == "STORAGE_EMULATOR_HOST" and "://" not in value:
                value = f"http://{value}"
            if _ADDRESS.fullmatch(value) is None:
                raise UsageError(f"{name} is not the URL of a server. Write http://HOST:PORT.")
            return value
    return ""
