"""What tests of several packages share."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pyarrow as pa
import pytest
import simplejpeg

from shard_format import (
    LABELS_FIELD,
    Feature,
    IndexWriter,
    Ledger,
    Manifest,
    Schema,
    ShardInfo,
    SplitInfo,
    encode_example,
    file_sha256,
    frame,
    index_schema,
)
from shard_format.naming import MANIFEST, index_file, shard_file

pytest_plugins = ["tests.fixtures.command_line"]

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

# The machine is noisy: no test is about time. The seed is fixed so that CI is reproducible.
hypothesis.settings.register_profile("shardmill", deadline=None, derandomize=True)
hypothesis.settings.load_profile("shardmill")

REPOSITORY = Path(__file__).parents[1]

# Tests are dealt out by the file: the longest first, or one worker is busy with them in the end
# while the others have nothing left.
_LONGEST = (
    "docs/test_commands.py",
    "beam_jobs/test_kill.py",
    "serving/test_reading.py",
    "trainer/test_resume.py",
    "docs/test_demo.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: order.get("/".join(item.path.parts[-2:]), len(order)))


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def samples() -> Path:
    """324 files in 10 class folders; 2 are duplicates, 2 are broken."""
    return REPOSITORY / "samples" / "clothing"


@pytest.fixture(scope="session")
def corpora() -> Path:
    """Larger corpora that may lie beside the repository; they are not part of it."""
    folder = REPOSITORY.parent / "shared" / "corpora"
    if not folder.is_dir():
        pytest.skip("needs the developers' corpora in ../shared/corpora")
    return folder


@pytest.fixture
def pictures(tmp_path: Path) -> Callable[..., Path]:
    """Makes a corpus of noise pictures in class folders; every one is unlike all others."""

    def make(count: int = 12, classes: int = 3, name: str = "corpus", side: int = 24) -> Path:
        root = tmp_path / name
        generator = np.random.default_rng(7)
        for number in range(count):
            folder = root / f"class{number % classes}"
            folder.mkdir(parents=True, exist_ok=True)
            pixels = generator.integers(0, 256, (side, side + 6, 3), np.uint8)
            (folder / f"{number:03d}.jpg").write_bytes(simplejpeg.encode_jpeg(pixels, 90))
        return root

    return make


@dataclasses.dataclass(frozen=True)
class Kind:
    """A record type, for tests that hold for every one of them.

    Attributes:
        name: Of the record type.
        suffix: Of a file that is one record.
        make: (count, classes, name) -> class folders of records, no two of them alike.
        defaults: Options of a job.
        damaged: The bytes of a record -> some that are none.
        refused: (stage, reason) of these.
        worse: Other bytes that are none.
        refused_worse: (stage, reason) of these.
        counted: Columns of whole numbers that the manifest summarizes.
    """

    name: str
    suffix: str
    make: Callable[..., Path]
    defaults: dict[str, object]
    damaged: Callable[[bytes], bytes]
    refused: tuple[str, str]
    worse: bytes
    refused_worse: tuple[str, str]
    counted: tuple[str, ...]

    def file(self, name: str) -> str:
        """The name with the suffix."""
        return name + self.suffix

    def options(self, source: Path, out: Path, **options: object) -> Any:
        """A job."""
        from beam_jobs.options import OPTIONS

        values = self.defaults | options
        return OPTIONS[self.name](sources=(str(source),), out=str(out), **values)


_WORDS = "the of and to in is that for it as was with be by on not he his but at".split()


@pytest.fixture(params=["image", "text"])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    """Every record type in turn."""
    if request.param == "image":
        return Kind(
            "image",
            ".jpg",
            request.getfixturevalue("pictures"),
            {"resize": "shorter:32"},
            lambda data: data[:-40],
            ("prepare", "truncated"),
            b"",
            ("prepare", "empty-file"),
            ("width", "height", "source_bytes"),
        )

    def documents(count: int = 12, classes: int = 3, name: str = "corpus") -> Path:
        generator = np.random.default_rng(7)
        for number in range(count):
            folder = tmp_path / name / f"class{number % classes}"
            folder.mkdir(parents=True, exist_ok=True)
            words = generator.choice(_WORDS, 500).tolist()
            text = f"Document {number}\n" + " ".join(words)
            (folder / f"{number:03d}.txt").write_text(text)
        return tmp_path / name

    return Kind(
        "text",
        ".txt",
        documents,
        {},
        lambda data: data[:-4] + b"\xff\xfe\xfd",
        ("read", "bad-encoding"),
        b" \n",
        ("filter", "empty"),
        ("chars", "words", "source_bytes"),
    )


@pytest.fixture
def build(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Runs a preprocessing job in this process; keyword arguments are its options.

    It is one on pictures, unless the test is for every `kind`.
    """
    from beam_jobs.options import ImageOptions
    from beam_jobs.run import run_preprocess

    kind = request.getfixturevalue("kind") if "kind" in request.fixturenames else None
    kind = kind if isinstance(kind, Kind) else None  # a test may call something else so

    def run(source: Path, out: str | Path = "set", /, **options: object) -> object:
        target = out if isinstance(out, Path) else tmp_path / out
        values = {"workers": 1, "no_report": True} | options
        if kind is not None:
            return run_preprocess(kind.options(source, target, **values))
        values = {"resize": "shorter:32"} | values
        return run_preprocess(ImageOptions(sources=(str(source),), out=str(target), **values))

    return run


@pytest.fixture
def write_records(tmp_path: Path) -> Callable[..., Path]:
    """Writes a shard set of any schema, in shards of at most 50 records."""

    def write(
        schema: Schema,
        splits: dict[str, list[tuple[dict[str, object], dict[str, object]]]],
        columns: tuple[pa.Field, ...] = (),
        statistics: dict[str, object] | None = None,
        name: str = "set",
    ) -> Path:
        """A set in `tmp_path / name`; `splits` has features and index columns of every record."""
        directory = tmp_path / name
        (directory / "index").mkdir(parents=True)
        infos, files, key = {}, {}, 0
        many = any(f.kind == "class_label" and f.shape for f in schema.features)
        columns = (*columns, *([LABELS_FIELD] if many else []))
        for split, records in splits.items():
            shards = [records[start : start + 50] for start in range(0, len(records), 50)]
            written = []
            with IndexWriter(directory / index_file(split), columns) as index:
                for shard, inside in enumerate(shards):
                    path = directory / shard_file("tiny", split, shard, len(shards))
                    rows, offset = [], 0
                    with path.open("wb") as file:
                        for values, row in inside:
                            framed = frame(encode_example(schema, values))  # type: ignore[arg-type]
                            file.write(framed)
                            label = values.get("label")
                            own = {"shard": shard, "offset": offset, "length": len(framed)}
                            own |= {"key": key, "record_id": str(key), "fingerprint": b"f" * 16}
                            own |= {"labels": label} if many else {"label": label}
                            rows.append(row | own)
                            offset, key = offset + len(framed), key + 1
                    index.append(pa.Table.from_pylist(rows, schema=index_schema(columns)))
                    written.append(ShardInfo(path.name, len(inside), offset, file_sha256(path)))
            infos[split] = SplitInfo(tuple(written), statistics or {})
            path = directory / index_file(split)
            files[index_file(split)] = {"bytes": path.stat().st_size, "sha256": file_sha256(path)}
        manifest = Manifest("tiny", schema, infos, Ledger(key, key, 0, 0, 0, {}), {}, files)
        (directory / MANIFEST).write_text(manifest.to_text())
        return directory

    return write


@pytest.fixture
def token_set(write_records: Callable[..., Path]) -> Callable[..., Path]:
    """Writes a set of token ids below 50: of every split pairs of ids and label, or ids alone."""

    def write(name: str = "set", classes: int = 2, **splits: list[tuple[list[int], int]]) -> Path:
        features = [Feature("id", "text"), Feature("tokens", "int64", (-1,))]
        if classes:
            names = tuple(f"class{number}" for number in range(classes))
            features.append(Feature("label", "class_label", (), "", names, late=True))
        return write_records(
            Schema("tokens", tuple(features)),
            {
                split: [
                    ({"id": str(n), "tokens": ids, "label": label}, {"tokens": len(ids)})
                    for n, (ids, label) in enumerate(records)
                ]
                for split, records in splits.items()
            },
            columns=(pa.field("tokens", pa.int64()),),
            statistics={"vocabulary": {"size": 50}},
            name=name,
        )

    return write


@pytest.fixture
def packed_set(write_records: Callable[..., Path]) -> Callable[..., Path]:
    """Writes packed sequences: of every split, of every record the token ids of its documents."""

    def write(
        length: int, name: str = "set", size: int = 50, **splits: list[list[list[int]]]
    ) -> Path:
        def record(documents: list[list[int]]) -> tuple[dict[str, object], dict[str, object]]:
            padding = length - sum(map(len, documents))
            tokens = [token for ids in documents for token in ids] + [0] * padding
            segments = [n for n, ids in enumerate(documents, 1) for _ in ids] + [0] * padding
            positions = [p for ids in documents for p in range(len(ids))] + [0] * padding
            values = {"tokens": tokens, "segments": segments, "positions": positions}
            names = [f"d{number}" for number in range(len(documents))]
            return values, {"documents": names, "padding": padding}

        return write_records(
            Schema(
                "packed",
                tuple(
                    Feature(feature, "int64", (length,))
                    for feature in ("tokens", "segments", "positions")
                ),
            ),
            {split: [record(documents) for documents in found] for split, found in splits.items()},
            columns=(pa.field("documents", pa.list_(pa.string())), pa.field("padding", pa.int64())),
            statistics={"vocabulary": {"size": size}},
            name=name,
        )

    return write


@pytest.fixture
def text_set(write_records: Callable[..., Path]) -> Callable[..., Path]:
    """Writes documents: of every split pairs of text and label, or of labels, or None."""

    def write(classes: int = 2, many: bool = False, **splits: list[tuple[str, object]]) -> Path:
        features = [Feature("id", "text"), Feature("text", "text")]
        names = tuple(f"class{number}" for number in range(classes))
        if classes:
            shape = (-1,) if many else ()
            features.append(Feature("label", "class_label", shape, "", names, late=True))
        return write_records(
            Schema("text", tuple(features)),
            {
                split: [
                    ({"id": str(n), "text": text, "label": label}, {})
                    for n, (text, label) in enumerate(records)
                ]
                for split, records in splits.items()
            },
        )

    return write
