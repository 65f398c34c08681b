"""Connections to buckets: which client, with which credentials, and what its errors mean.

Reads, listings and deletions go through obstore, a client in Rust; so do writes to S3 and Azure.
Nothing secret is part of a URL: credentials come from the environment, as the providers' own tools
have them.
"""

from __future__ import annotations

import errno
import functools
import importlib.util
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote

from foundation.errors import UsageError
from foundation.storage import hub_client
from foundation.storage.addresses import server_address
from foundation.storage.base import WEB, Url

_STATUS = re.compile(r"status code: (\d+ [A-Za-z ]+)")
_CODE = re.compile(r"<Code>([^<]*)</Code>(?:<Message>([^<]*)</Message>)?")
_METADATA_SERVER = "169.254.169.254"
# In what obstore tells of an error for debugging.
_HOST = re.compile(r"uri: Some\(\s*\w+://(?:[^/@\s]*@)?([^/\s,?]+)")
_CONNECT_ERROR, _TIMED_OUT = "kind: Connect", "kind: Timeout"
_CAUSE = re.compile(r'(?:message|error): "(?:[^"]*: )?([^":]*)"')
# An exception of what gives obstore credentials; its text may hold some.
_PROVIDER = re.compile(r"External \w+ credential provider: (?:\w+\.)*(\w+)")
_CREDENTIAL_PACKAGES = ("google.auth", "botocore")

_RETRIES: dict[str, Any] = {
    "max_retries": 8,
    "retry_timeout": timedelta(minutes=2),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=10),
        "base": 2,
    },
}
# A request has at most 32 MiB; one that is slower than 0.5 MB/s is started again.
_CLIENT: dict[str, Any] = {"timeout": timedelta(minutes=1), "connect_timeout": timedelta(seconds=5)}
# A server of files may be slow, and an answer a whole file; it ends if nothing comes for a minute.
_WEB_CLIENT: dict[str, Any] = {
    "timeout": timedelta(days=7),
    "read_timeout": timedelta(minutes=1),
    "connect_timeout": timedelta(seconds=20),
}


class Location(NamedTuple):
    """An object, or a folder of objects.

    Attributes:
        store: The bucket, for the functions of obstore.
        bucket: Its name.
        key: In the bucket; "" is the bucket itself.
    """

    store: Any
    bucket: str
    key: str


def locate(url: Url) -> Location:
    """Where a URL leads to; nothing is requested yet.

    Raises:
        UsageError: It names no bucket, or has a password or options in it.
    """
    scheme, _, rest = url.text.partition("://")
    if scheme in WEB:
        folder, _, name = url.text.rpartition("/")
        if "%2F" in name.upper():  # the client takes names, in which no slash can be
            folder, name = url.text, ""
        return Location(_web(folder), folder, unquote(name))
    if scheme == "hf":
        address, authorization, path = hub_client.location(url)
        return Location(_web(address, authorization), address, path)
    bucket, _, key = rest.partition("/")
    container, at, host = bucket.partition("@")
    if not bucket:
        raise UsageError(f"{url} names no bucket. Write {scheme}://BUCKET/FOLDER.")
    if scheme in AZURE and at:
        return Location(_azure(container, host.partition(".")[0]), bucket, key.rstrip("/"))
    return Location(_CONNECT[scheme](bucket), bucket, key.rstrip("/"))


AZURE = ("abfs", "abfss")


def check_url(text: str, scheme: str) -> None:
    """Checks that a URL names a bucket, or a host, and has nothing that may be secret in it.

    Raises:
        UsageError: It does not. The message shows nothing secret.
    """
    if scheme == "hf":
        hub_client.parse(text)
        return
    host, slash, path = text.partition("://")[2].partition("/")
    if scheme in WEB:
        _check_web(scheme, host, path)
        return
    if not host and (scheme != "hdfs" or not path):  # HDFS has a default host
        name = "host" if scheme == "hdfs" else "bucket"
        raise UsageError(f"{text} names no {name}. Write {scheme}://{name.upper()}/FOLDER.")
    user, at, shown = host.rpartition("@")
    secret = (at and (scheme not in AZURE or ":" in user)) or (
        scheme in AZURE and "?" in path and "sig=" in path
    )
    if secret or "endpoint_override=" in path:
        path = path.partition("?")[0]
        raise UsageError(
            f"The URL of {scheme}://{shown}{slash}{path} has credentials or options in it. Put "
            "them into environment variables, such as AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY "
            "and AWS_ENDPOINT_URL."
        )


def _check_web(scheme: str, host: str, path: str) -> None:
    """Checks that a URL is one file of a server, without anything that may be secret."""
    rules = "A source there is one file, without password, query or pattern."
    shown = f"{scheme}://{host.rpartition('@')[2]}/{re.split('[?#]', path)[0]}"
    if not (host and path.strip("/")):
        raise UsageError(f"{shown} names no file. {rules} Write {scheme}://HOST/PATH/FILE.")
    if "@" in host:
        raise UsageError(f"The URL of {shown} has credentials in it. {rules}")
    if special := next((one for one in "?#*[" if one in path), ""):
        raise UsageError(
            f"The URL of {shown} has {special!r} in it. {rules} In a name, write "
            f"%{ord(special):02X} for it; download a file that needs a query."
        )


@functools.lru_cache(maxsize=256)
def _web(address: str, authorization: str = "") -> Any:
    """The files of a server below an address.

    Redirects are followed, but not from https to http, and the authorization stays with the host.
    """
    from obstore.store import HTTPStore

    options: Any = _WEB_CLIENT | {"allow_http": address.startswith("http://")}
    if authorization:
        options["default_headers"] = {"authorization": authorization}
    retries: Any = _RETRIES
    return HTTPStore(address, client_options=options, retry_config=retries)


@functools.cache
def _s3(bucket: str) -> Any:
    from obstore.store import S3Store

    endpoint = server_address("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    _check_keys("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    arguments = _options(endpoint)
    if not os.environ.get("AWS_ACCESS_KEY_ID") and importlib.util.find_spec("boto3"):
        arguments["credential_provider"] = _boto3_credentials()
    return S3Store(bucket, **arguments)


def _check_keys(*names: str) -> None:
    """Checks that variables can be sent in the head of a request, which a line break cannot.

    Raises:
        UsageError: One cannot be.
    """
    for name in names:
        if not os.environ.get(name, "").isascii() or not os.environ.get(name, "").isprintable():
            raise UsageError(
                f"{name} has a line break or a character that keys do not have. Set it."
            )


def _options(endpoint: str) -> dict[str, Any]:
    """Options of a client; without TLS only if the user names such an endpoint."""
    client = _CLIENT | {"allow_http": endpoint.startswith("http://")}
    return {"client_options": client, "retry_config": _RETRIES}


def _boto3_credentials() -> Any:
    """Profiles, single sign-on and assumed roles, where boto3 is installed and finds some."""
    import boto3.session
    from obstore.auth.boto3 import Boto3CredentialProvider

    session = boto3.session.Session()
    return Boto3CredentialProvider(session) if session.get_credentials() else None


@functools.cache
def _gcs(bucket: str) -> Any:
    from obstore.store import GCSStore

    endpoint = server_address("STORAGE_EMULATOR_HOST")  # as Google's own clients have it
    arguments = _options(endpoint)
    if endpoint:
        # Any token will do, and none makes the client ask Google's metadata server for one.
        arguments["credential_provider"] = lambda: {"token": "emulator", "expires_at": None}
        arguments["base_url"] = endpoint.rstrip("/")
    elif importlib.util.find_spec("google") and importlib.util.find_spec("google.auth"):
        from obstore.auth.google import GoogleCredentialProvider

        arguments["credential_provider"] = GoogleCredentialProvider()
    return GCSStore(bucket, **arguments)


@functools.cache
def _azure(container: str, account: str = "") -> Any:
    from obstore.store import AzureStore

    endpoint = server_address("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
    if os.environ.get("AZURE_STORAGE_USE_EMULATOR", "").lower() in ("1", "true"):
        endpoint = endpoint or "http://"
    arguments = _options(endpoint) | ({"account_name": account} if account else {})
    return AzureStore(container, **arguments)


_CONNECT: dict[str, Callable[[str], Any]] = {
    "s3": _s3,
    "gs": _gcs,
    **dict.fromkeys(AZURE, _azure),
}


def forget_connections() -> None:
    """Has the next request connect anew: with other variables, or in a forked process."""
    for connect in (_s3, _gcs, _azure, _web):
        connect.cache_clear()


os.register_at_fork(after_in_child=forget_connections)


@contextmanager
def readable_errors(url: object) -> Iterator[None]:
    """Raises what a client raises within this context as an OSError, without its request."""
    from obstore import exceptions as known

    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(url)) from None
    except (known.AlreadyExistsError, known.PreconditionError):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(url)) from None
    except known.BaseError as error:
        number, reason = _reason(error)
        raise OSError(number, reason, str(url)) from None
    except ValueError as error:  # a variable of the environment
        reason = f"The client cannot be set up ({_first_line(error)})"
        raise OSError(errno.EINVAL, reason, str(url)) from None
    except Exception as error:
        if not type(error).__module__.startswith(_CREDENTIAL_PACKAGES):
            raise
        reason = f"No valid credentials were found ({type(error).__name__})"
        raise OSError(errno.EACCES, reason, str(url)) from None


def _reason(error: Exception) -> tuple[int, str]:
    """Number and text of an OSError: status and code of the answer, never the request."""
    text = str(error)
    if _METADATA_SERVER in text or "token request" in text:
        return errno.EACCES, (
            "No credentials were found in the environment, and no cloud's metadata server answers"
        )
    if "invalid path" in text:  # a//b and a/../b are names of objects, but not for the client
        return errno.EINVAL, f"{_first_line(error)}. Rename that object"
    if provider := _PROVIDER.search(text):
        return errno.EACCES, f"No valid credentials were found ({provider[1]})"
    if "Range request not supported" in text:
        return errno.EOPNOTSUPP, "The server has no range requests"
    if "Wanted range starting at" in text:  # Azurite answers such a request with no bytes
        return errno.ERANGE, _first_line(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    if status is None:
        return errno.EIO, _no_answer(text) or _first_line(error)
    # What is missing here is the bucket: an answer, which another attempt does not change.
    number = {"401": errno.EACCES, "403": errno.EACCES, "404": errno.ENXIO, "416": errno.ERANGE}
    number["429"] = errno.EBUSY
    reason = status[1].strip()
    if code is not None:
        reason += f" ({': '.join(part for part in code.groups() if part)})"
    return number.get(reason[:3], errno.EIO), reason


def _no_answer(text: str) -> str:
    """What is wrong if no answer came; "" if it is something else."""
    host, cause = _HOST.search(text), _CAUSE.search(text)
    if host is None or not (_CONNECT_ERROR in text or _TIMED_OUT in text):
        return ""
    if _CONNECT_ERROR in text:
        return f"No connection to {host[1]}" + (f" ({cause[1]})" if cause else "")
    return f"No answer from {host[1]} in time"


def _first_line(error: Exception) -> str:
    """What a client says first, without URLs, whose query may be signed."""
    line = str(error).partition("Debug source")[0].strip().partition("\n")[0]
    return re.sub(r"\S+://\S+", "the server", line)
