"""Reading: random crops of stored images in batches, from the page cache and from the disk."""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path

from benchmarks.corpus import make_corpus
from benchmarks.measure import Run, run
from benchmarks.scorecard.row import OURS, Bench, Column, Row, Subject, detail, rate_columns
from benchmarks.scorecard.rows.preprocess_images import build_images

_COUNT, _SECONDS = 8400, 4.0
_SMALL_COUNT, _SMALL_SECONDS = 640, 0.1
_TAR_BYTES, _SMALL_TAR_BYTES = 64 << 20, 1 << 20
_BLOCK_BYTES = 4 << 20

_TASK = """
Images with a shorter side of 256 pixels as JPEG of quality 90 (collages of photographs, 21 kB each)
become batches of 64 with labels: a random crop of 8 to 100 % of the area and a ratio of 3:4 to 4:3,
resized to 224 bilinearly, mirrored in half of the cases, uint8. Every program reads the same bytes
in the form that it is made for, shuffled, one epoch after the other. It has as many threads, or
worker processes, as there are cores, as its documentation says. The clock starts after 60 batches;
"start" is the time from the start of the process to the first batch, imports included.

Libraries that leave decoding to the caller get the kernels of the reader: simplejpeg and OpenCV.
"WebDataset" and "MosaicML Streaming" are as in their examples, with PIL and torchvision; "tuned" is
with these kernels. The crops have the same nominal distribution, but torchvision and DALI sample
area and ratio until both fit, and all others sample the area from those that fit (mean area 0.432
and 0.419). Only the chains of TensorFlow and DALI gain from smaller crops: they decode no more than
the crop.
"""


def make_form(bench: Bench, form: str, count: int = 0) -> Path:
    """The folder with the images in the form of a program; an existing one is taken again.

    Args:
        bench: Where.
        form: "shardmill", "webdataset", "mosaicml", "files", "array_records", "litdata" or
            "parquet", or "dali": the shards with an index of its form.
        count: Number of images, before the split; that of the row "read" where 0.
    """
    count = count or (_SMALL_COUNT if bench.is_small else _COUNT)
    root = bench.work / f"reading-{count}"
    out, complete = root / form, root / f"{form} is complete"
    if complete.exists():
        return out
    if form == "shardmill":
        build_images(make_corpus(bench.work, count), out, "off")
    elif form == "webdataset":
        size = _SMALL_TAR_BYTES if bench.is_small else _TAR_BYTES  # each worker needs some
        run("write_tars", make_form(bench, "shardmill", count), out, size)
    elif form == "dali":
        _link_with_index(make_form(bench, "shardmill", count), out)
    elif form == "mosaicml":
        run("write_mds", make_form(bench, "webdataset", count), out, python=bench.python("readers"))
    else:
        tars, python = make_form(bench, "webdataset", count), bench.python("readers")
        run("write_peers", form, tars, out, python=python)
    complete.touch()
    return out


_DATA_PERFORMANCE = "https://www.tensorflow.org/guide/data_performance"
_LOAD_IMAGES = "https://www.tensorflow.org/tutorials/load_data/images"
_TFDS = "https://www.tensorflow.org/datasets/performances"
_WEBDATASET = "https://webdataset.github.io/webdataset/gettingstarted"
_MOSAICML = "https://docs.mosaicml.com/projects/streaming"
_GRAIN = "https://google-grain.readthedocs.io/en/latest/tutorials/data_loader_tutorial.html"
_DALI = "https://docs.nvidia.com/deeplearning/dali/user-guide/docs/examples/general/data_loading/dataloading_tfrecord.html"
_SPDL = "https://facebookresearch.github.io/spdl"
_TORCH = "https://docs.pytorch.org/docs/stable/data.html"
_LITDATA = "https://github.com/Lightning-AI/litData"
_DATASETS = "https://huggingface.co/docs/datasets/use_with_pytorch"


def _link_with_index(shards: Path, out: Path) -> None:
    import reader

    out.mkdir(parents=True, exist_ok=True)
    for index in reader.export_index(shards, "dali", out).files["train"]:
        link = out / index.stem
        link.unlink(missing_ok=True)
        link.symlink_to(shards / index.stem)


# (name, whose, form of the set, module in benchmarks/subjects, arguments, page that it follows)
_SUBJECTS: tuple[tuple[str, str, str, str, tuple[str, ...], str], ...] = (
    ("shardmill", OURS, "shardmill", "shardmill_read", ("dataset", "window", "off"), ""),
    ("shardmill, full", OURS, "shardmill", "shardmill_read", ("dataset", "full", "off"), ""),
    ("shardmill, NumPy", OURS, "shardmill", "shardmill_read", ("numpy", "window", "off"), ""),
    ("shardmill, NumPy, full", OURS, "shardmill", "shardmill_read", ("numpy", "full", "off"), ""),
    ("bare kernels in threads", "", "shardmill", "bare_read_kernels", (), ""),
    ("tf.data, tuned by hand", "tf.data", "shardmill", "hand_tuned_read", ("tuned",), ""),
    (
        *("tf.data of training scripts", "tf.data", "shardmill"),
        *("hand_tuned_read", ("usual",), _DATA_PERFORMANCE),
    ),
    ("tf.data of tutorials", "tf.data", "shardmill", "hand_tuned_read", ("plain",), _LOAD_IMAGES),
    ("TFDS", "TFDS", "shardmill", "tfds_read", ("tutorial",), _TFDS),
    ("TFDS, SkipDecoding", "TFDS", "shardmill", "tfds_read", ("skip",), _TFDS),
    ("WebDataset", "WebDataset", "webdataset", "webdataset_read", ("pil",), _WEBDATASET),
    ("WebDataset, tuned", "WebDataset", "webdataset", "webdataset_read", ("tuned",), _WEBDATASET),
    ("MosaicML Streaming", "MosaicML Streaming", "mosaicml", "mosaicml_read", ("pil",), _MOSAICML),
    (
        *("MosaicML Streaming, tuned", "MosaicML Streaming", "mosaicml"),
        *("mosaicml_read", ("tuned",), _MOSAICML),
    ),
    ("LitData", "LitData", "litdata", "litdata_read", (), _LITDATA),
    ("Grain, ArrayRecord", "Grain", "array_records", "grain_read", (), _GRAIN),
    ("DALI on the CPU", "DALI", "dali", "dali_read", (), _DALI),
    ("SPDL, files", "SPDL", "files", "spdl_read", (), _SPDL),
    ("PyTorch, files", "PyTorch", "files", "torch_read", (), _TORCH),
    ("Hugging Face datasets", "Hugging Face datasets", "parquet", "datasets_read", (), _DATASETS),
)


# Those that `tfds.benchmark` is for: an iterable of TensorFlow.
_TFDS_CLOCKED = (
    *("shardmill", "tf.data, tuned by hand", "tf.data of training scripts"),
    *("TFDS", "TFDS, SkipDecoding"),
)


def _subjects(bench: Bench, state: str) -> list[Subject]:
    subjects = []
    for name, whose, form, module, arguments, page in _SUBJECTS:
        if state == "tfds" and name not in _TFDS_CLOCKED:
            continue
        environment = "" if form == "shardmill" else "readers"

        def read(
            form: str = form, module: str = module, arguments: tuple[str, ...] = arguments
        ) -> Run:
            return _read(bench, state, form, module, arguments)

        subjects.append(Subject(name, whose, read, environment, page))
    return subjects


def _read(bench: Bench, state: str, form: str, module: str, arguments: tuple[str, ...]) -> Run:
    """Runs a subject after its files were evicted from memory or loaded into it."""
    folder, rest = make_form(bench, form), "tfds" if state == "tfds" else "0"
    if state == "cold":
        _evict(folder)
        rest = str(_records(make_form(bench, "shardmill")))
    else:
        fill(folder)
    return run(
        module,
        folder,
        *arguments,
        _SMALL_SECONDS if bench.is_small else _SECONDS,
        rest,
        python=sys.executable if form == "shardmill" else bench.python("readers"),
    )


def read(folder: Path, seconds: float, worktree: Path | None = None) -> Run:
    """Runs shardmill's reader with its defaults on files that are in memory."""
    fill(folder)
    arguments = (folder, "dataset", "window", "off", seconds)
    return run("shardmill_read", *arguments, worktree=worktree)


def _evict(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())  # pages that were not written yet would stay
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def fill(folder: Path) -> None:
    """Loads the files of a folder into the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.read(_BLOCK_BYTES):
                    pass


def _records(folder: Path) -> int:
    manifest = json.loads((folder / "manifest.json").read_text())
    return int(manifest["splits"]["train"]["records"])


_COLUMNS = (
    *rate_columns("images"),
    Column("start s", detail("start_seconds"), "less", 1),
)
READ = Row(
    "read",
    "read photographs, standard augmentation, page cache warm",
    _TASK,
    _COLUMNS,
    functools.partial(_subjects, state="warm"),
)
READ_COLD = Row(
    "read-cold",
    "read photographs from the disk, first epoch",
    """
As above, but the files are evicted from the page cache before every run, and no record is read
twice. Caches below a virtual disk are not controlled.
""",
    _COLUMNS,
    functools.partial(_subjects, state="cold"),
)
READ_TFDS = Row(
    "read-tfds",
    "read photographs, by the clock of tfds.benchmark",
    """
The task of the row "read", for the programs whose batches are tensors of TensorFlow. Each reads for
some seconds by the clock of the other rows, then as many batches by that of `tfds.benchmark`.
""",
    (
        Column("images/s by tfds.benchmark", detail("tfds_rate"), "more"),
        Column("images/s by ours", lambda run: run.rate, "more"),
    ),
    functools.partial(_subjects, state="tfds"),
)
