"""The first epoch of a set in a bucket: `LIBRARY URL CACHE`; the variables of AWS name the server.

CACHE is an empty folder, for libraries that copy what they read.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2

from benchmarks.subjects.clock import BATCH, SIDE, measure_epoch

_WORKERS = len(os.sched_getaffinity(0))
_BUFFER = 4096  # records, in all workers
_VALID_SECONDS = 3600


def read_shardmill(url: str, cache: Path) -> Iterator[Any]:
    """The reader's NumPy batches; nothing is copied to the disk."""
    import reader

    return iter(
        reader.load(
            url, batch_size=BATCH, image_size=SIDE, augment="standard", cache="off", epochs=1
        )
    )


def read_mosaicml(url: str, cache: Path) -> Iterator[Any]:
    """StreamingDataset with a local copy."""
    import streaming
    import torch

    from benchmarks.subjects.pixels import crop

    os.environ["S3_ENDPOINT_URL"] = os.environ["AWS_ENDPOINT_URL"]
    streaming.base.util.clean_stale_shared_memory()

    class Images(streaming.StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, at: Any) -> Any:
            record = super().__getitem__(at)
            return torch.from_numpy(crop(record["jpg"])), record["cls"]

    dataset = Images(remote=url, local=str(cache), batch_size=BATCH, shuffle=True)
    loader = streaming.StreamingDataLoader(
        dataset,
        batch_size=BATCH,
        num_workers=_WORKERS,
        drop_last=True,
        worker_init_fn=_one_thread,
    )
    return iter(loader)


def read_litdata(url: str, cache: Path) -> Iterator[Any]:
    """StreamingDataset with a local copy."""
    import litdata
    import torch

    from benchmarks.subjects.pixels import crop

    class Images(litdata.StreamingDataset):
        def __getitem__(self, number: Any) -> tuple[Any, int]:
            cv2.setNumThreads(1)
            record = super().__getitem__(number)
            return torch.from_numpy(crop(record["jpeg"])), record["label"]

    # The server has no certificate, and no option of LitData allows that.
    options = importlib.import_module("litdata.streaming.downloader")._OBSTORE_CLIENT_OPTIONS
    options["allow_http"] = True
    dataset = Images(
        url,
        cache_dir=str(cache),
        shuffle=True,
        drop_last=True,
        storage_options={
            "endpoint_url": os.environ["AWS_ENDPOINT_URL"],
            "aws_access_key_id": os.environ["AWS_ACCESS_KEY_ID"],
            "aws_secret_access_key": os.environ["AWS_SECRET_ACCESS_KEY"],
            "region_name": os.environ["AWS_REGION"],
        },
    )
    return iter(litdata.StreamingDataLoader(dataset, batch_size=BATCH, num_workers=_WORKERS))


def read_webdataset(url: str, cache: Path) -> Iterator[Any]:
    """Tar files by curl in a pipe, from signed addresses."""
    import boto3
    import botocore.config
    import webdataset as wds

    from benchmarks.subjects.pixels import crop

    client = boto3.client(
        "s3",
        endpoint_url=os.environ["AWS_ENDPOINT_URL"],
        region_name=os.environ["AWS_REGION"],
        config=botocore.config.Config(signature_version="s3v4"),
    )
    bucket, _, folder = url.removeprefix("s3://").partition("/")
    listed = client.list_objects_v2(Bucket=bucket, Prefix=f"{folder}/")["Contents"]
    signed = [
        client.generate_presigned_url(
            "get_object", {"Bucket": bucket, "Key": one["Key"]}, _VALID_SECONDS
        )
        for one in listed
        if one["Key"].endswith(".tar")
    ]
    dataset = (
        wds.WebDataset([f"pipe:curl -s '{one}'" for one in signed], shardshuffle=len(signed))
        .shuffle(_BUFFER // _WORKERS, initial=_BUFFER // _WORKERS)
        .to_tuple("jpg", "cls")
        .map_tuple(crop, int)
        .batched(BATCH, partial=False)
    )
    return iter(
        wds.WebLoader(dataset, batch_size=None, num_workers=_WORKERS, worker_init_fn=_one_thread)
    )


def _one_thread(worker: int = 0) -> None:
    cv2.setNumThreads(1)


# The module that is imported before the clock begins, and how the set is read.
READERS: dict[str, tuple[str, Callable[[str, Path], Iterator[Any]]]] = {
    "shardmill": ("reader", read_shardmill),
    "mosaicml": ("streaming", read_mosaicml),
    "litdata": ("litdata", read_litdata),
    "webdataset": ("webdataset", read_webdataset),
}


def main() -> None:
    """Arguments: LIBRARY URL CACHE."""
    library, url, cache = sys.argv[1:]
    module, read = READERS[library]
    importlib.import_module(module)
    measure_epoch(functools.partial(read, url, Path(cache)))


if __name__ == "__main__":
    main()
