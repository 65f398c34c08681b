"""Uploads to Google Cloud Storage through Google's own client.

obstore uploads large objects in parts by the XML interface, whose parts stay, hidden and paid for,
when the uploader is killed. The JSON interface has resumable uploads, of which nothing stays, and
is what the emulators of the service implement.
"""

from __future__ import annotations

import errno
import os
import threading
from typing import Any, BinaryIO

from foundation.errors import UsageError
from foundation.storage.base import Url

_CHUNK_BYTES = 32 << 20  # 32 MiB a request of a resumable upload
_TIMEOUT_SECONDS = 60.0
_RETRY_SECONDS = 30.0  # of one attempt; the caller makes several

_threads = threading.local()  # a connection must not be shared


def upload_to_gcs(url: Url, file: BinaryIO, size: int, *, if_absent: bool) -> None:
    """Sends a file, from where it is, to an object.

    Raises:
        UsageError: The client is not installed.
        FileExistsError: There is an object, and there must not be one.
        OSError: It failed, after retries.
    """
    try:
        from google.api_core import exceptions
        from google.auth.exceptions import GoogleAuthError
        from google.cloud.storage.retry import DEFAULT_RETRY
    except ImportError:
        raise UsageError(
            f"Writing to {url} needs Google's client. Install it: pip install 'shardmill[prepare]'."
        ) from None
    bucket, _, key = url.text.removeprefix("gs://").partition("/")
    try:
        blob = _client().bucket(bucket).blob(key, chunk_size=_CHUNK_BYTES)
        blob.upload_from_file(
            file,
            size=size,
            if_generation_match=0 if if_absent else None,
            checksum="crc32c",
            timeout=_TIMEOUT_SECONDS,
            retry=DEFAULT_RETRY.with_timeout(_RETRY_SECONDS),
        )
    except exceptions.PreconditionFailed:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(url)) from None
    except (exceptions.GoogleAPICallError, exceptions.RetryError) as error:
        raise _error(url, error) from None
    except GoogleAuthError as error:
        reason = f"no valid credentials were found ({type(error).__name__})"
        raise OSError(errno.EACCES, reason, str(url)) from None
    except OSError as error:
        raise _error(url, error) from None


def _error(url: Url, error: BaseException) -> OSError:
    """What is wrong, without the request, which has the credentials."""
    error = getattr(error, "cause", None) or error  # of what was tried again until the end
    code = getattr(error, "code", None)
    if code is None:
        return OSError(errno.EIO, type(error).__name__, str(url))
    numbers = {401: errno.EACCES, 403: errno.EACCES, 404: errno.ENOENT}
    reason = f"{int(code)} {type(error).__name__}"
    if code in (404, 410) and "upload_id=" in str(error):
        # Not the bucket, but an upload that was begun: it has to begin again
        # (https://cloud.google.com/storage/docs/resumable-uploads#handling_errors).
        return OSError(errno.EIO, reason, str(url))
    return OSError(numbers.get(int(code), errno.EIO), reason, str(url))


def _client() -> Any:
    from google.cloud import storage

    emulator = os.environ.get("STORAGE_EMULATOR_HOST")
    if getattr(_threads, "emulator", "none yet") != emulator:
        # Uploads need no project, which credentials outside of Google do not tell.
        _threads.client, _threads.emulator = storage.Client(project="none"), emulator
    return _threads.client
