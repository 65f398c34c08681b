"""How every row of CONTRIBUTING's "Where do I add ..." is done with a toy, and how the toy is used.

To cover a new row: write what is added below tests/docs/toys, and a Case whose edits are what the
row says.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

from tests.docs.tree_edits import Edit, Field, File, Function, Line

# Sets that several cases look at, each built once: name -> how.
BUILDS = {
    "set": "preprocess images raw --out set --resize toy:16 --encoding toy --toy 9 --split train=1",
    "docs": "preprocess text texts.csv --out docs --label-column label --clean toy --split train=1",
    "packed": "preprocess text texts.csv --out packed --no-labels --split train=1 "
    "--train-tokenizer bpe:300 --pack 16 --packing toy",
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A row, and what is done as it says.

    Attributes:
        row: Its first cell.
        edits: The file and the line.
        steps: What uses the toy in the folder of the corpora, see `step_process`.
        shown: (folder, stdout of the steps) -> whether the toy was used.
        sets: Those of BUILDS that it needs.
        trains: Whether it takes a training, and is a proof.
    """

    row: str
    edits: tuple[Edit, ...]
    steps: tuple[str, ...] = ()
    shown: Callable[[Path, str], object] = lambda folder, out: True
    sets: tuple[str, ...] = ()
    trains: bool = False


def manifest(folder: Path) -> dict:
    return json.loads((folder / "manifest.json").read_text())


def num_records(folder: Path) -> int:
    return sum(shard["records"] for shard in manifest(folder)["splits"]["train"]["shards"])


CASES = [
    Case(
        "a file format",
        (
            File("beam_jobs/corpus/formats/toy.py"),
            Line(
                "beam_jobs/options/formats.py",
                "FORMATS",
                '"toy": FileFormat(f"{_FORMATS}.toy:Toy", ("text",), (b"TOY",))',
            ),
        ),
        (
            "preprocess text toys --out from-toys --no-labels --split train=1 --no-report",
            "preprocess text toys --out named --format toy --no-labels --split train=1 --no-report",
        ),
        lambda folder, out: num_records(folder / "from-toys") == num_records(folder / "named") == 2,
    ),
    Case(
        "an archive format",
        (
            File("beam_jobs/corpus/containers/toy.py"),
            Line(
                "beam_jobs/options/formats.py",
                "CONTAINERS",
                '"toybox": FileFormat("beam_jobs.corpus.containers.toy:Toy", (), (b"TARC",))',
            ),
        ),
        ("preprocess text archive.bin --out from-archive --no-labels --split train=1 --no-report",),
        lambda folder, out: num_records(folder / "from-archive") == 3,
    ),
    Case(
        "a record type",
        (
            File("beam_jobs/options/toy.py"),
            File("beam_jobs/record_types/toy.py"),
            File("reader/record_types/toy.py"),
            Line(
                "beam_jobs/options/__init__.py",
                "OPTIONS",
                '"toy": ToyOptions',
                "from beam_jobs.options.toy import ToyOptions",
            ),
            Line(
                "beam_jobs/record_types/__init__.py",
                "RECORD_TYPES",
                '"toy": "beam_jobs.record_types.toy:ToyRecords"',
            ),
            File("reader/graph/record_types/toy.py"),
            Line(
                "reader/record_types/__init__.py",
                "RECORD_TYPES",
                '"toy": toy_parser',
                "from reader.record_types.toy import toy_parser",
            ),
            Line(
                "reader/graph/record_types/__init__.py",
                "GRAPH_RECORD_TYPES",
                '"toy": toy_parser',
                "from reader.graph.record_types.toy import toy_parser",
            ),
        ),
        (
            "preprocess toys toys --out toy-set --no-labels --split train=1 --no-report",
            "python programs/toy_record_type.py",
        ),
        lambda folder, out: manifest(folder / "toy-set")["schema"]["record_type"] == "toy",
    ),
    Case(
        "a filter for images",
        (
            File("beam_jobs/images/filters/toy.py"),
            Line(
                "beam_jobs/images/filters/__init__.py",
                "STEPS",
                '"toy": toy',
                "from beam_jobs.images.filters.toy import toy",
            ),
            Field(
                "beam_jobs/options/image.py",
                "ImageOptions",
                'toy: int | None = option(None, "Leave out toys.", "N", type=int, absent_as=None)',
            ),
        ),
        shown=lambda folder, out: manifest(folder / "set")["ledger"]["reasons"] == {"toy": 1},
        sets=("set",),
    ),
    Case(
        "a cleaning step for text",
        (
            File("beam_jobs/text/cleaning/toy.py"),
            Line(
                "beam_jobs/text/cleaning/__init__.py",
                "STEPS",
                '"toy": Toy',
                "from beam_jobs.text.cleaning.toy import Toy",
            ),
        ),
        shown=lambda folder, out: manifest(folder / "docs")["ledger"]["reasons"] == {"toy": 1},
        sets=("docs",),
    ),
    Case(
        "an encoding",
        (
            Function("beam_jobs/images/encode.py", "ENCODERS"),
            Line("beam_jobs/images/encode.py", "ENCODERS", '"toy": encode_toy'),
            Function("reader/access/numpy_decoders.py", "NUMPY_DECODERS"),
            Line("reader/access/numpy_decoders.py", "NUMPY_DECODERS", '"toy": decode_toy'),
            Function("reader/graph/decoders.py", "DECODERS"),
            Line("reader/graph/decoders.py", "DECODERS", '"toy": Decoder(decode_toy)'),
            Line("shard_format/schema.py", "ENCODINGS", '"toy"'),
        ),
        ("python programs/toy_images.py",),
        sets=("set",),
    ),
    Case(
        "a resize mode",
        (
            Function("beam_jobs/images/resize.py", "RESIZE_MODES"),
            Line(
                "beam_jobs/images/resize.py",
                "RESIZE_MODES",
                '"toy": Mode(_SIDE, toy, crops=True)',
            ),
        ),
        ("python programs/toy_images.py",),
        sets=("set",),
    ),
    Case(
        "a reader transform for images",
        (
            File("reader/transforms/toy.py"),
            Line(
                "reader/transforms/__init__.py",
                "TRANSFORMS",
                '"toy": Toy',
                "from reader.transforms.toy import Toy",
            ),
        ),
        ("python programs/toy_transform.py",),
        sets=("set",),
    ),
    Case(
        "a reader transform for text",
        (
            File("reader/transforms/text/toy.py"),
            Line(
                "reader/transforms/text/__init__.py",
                "TEXT_TRANSFORMS",
                '"toy": toy',
                "from reader.transforms.text.toy import toy",
            ),
            Line("reader/transforms/text/__init__.py", "TEXT_AUGMENTATIONS", '"toy": (("toy",),)'),
        ),
        ("python programs/toy_text_transform.py",),
        sets=("docs",),
    ),
    Case(
        "an index for another reader",
        (
            Function("reader/index_export.py", "INDEX_FORMATS"),
            Line(
                "reader/index_export.py",
                "INDEX_FORMATS",
                '"toy": IndexFormat(".toy", toy_index)',
            ),
        ),
        ("export-index set --format toy --out exported",),
        lambda folder, out: next(folder.glob("exported/*.toy")).read_text() == "9 toys",
        sets=("set",),
    ),
    Case(
        "a way to pack",
        (
            File("beam_jobs/text/packings/toy.py"),
            Line(
                "beam_jobs/text/packings/__init__.py",
                "PACKINGS",
                '"toy": "beam_jobs.text.packings.toy:toy"',
            ),
        ),
        shown=lambda folder, out: num_records(folder / "packed") == 10,
        sets=("packed",),
    ),
    Case(
        "a command",
        (
            File("cli/commands/toy.py"),
            Line("cli/main.py", "_COMMANDS", '"toy": "Make a toy."'),
        ),
        ("toy everybody",),
        lambda folder, out: "a toy for everybody" in out,
    ),
    Case(
        "a section of the report",
        (
            File("beam_jobs/report/sections/toy.py"),
            File("beam_jobs/report/templates/toy.html"),
            Line(
                "beam_jobs/report/sections/__init__.py",
                "SECTIONS",
                'Section("toy", "All toys", toy.content)',
                "from beam_jobs.report.sections import toy",
            ),
        ),
        ("report docs",),
        lambda folder, out: re.search(
            "All toys.*9 toys", (folder / "docs/report.html").read_text(), re.DOTALL
        ),
        sets=("docs",),
    ),
    Case(
        "a check of the audit",
        (
            File("beam_jobs/audit/checks/toy.py"),
            Line(
                "beam_jobs/audit/checks/__init__.py",
                "CHECKS",
                '"toy": "beam_jobs.audit.checks.toy:TOY"',
            ),
        ),
        ("audit docs --out toy-audit",),
        lambda folder, out: (
            "Every record is a toy, by 3." in (folder / "toy-audit/audit.html").read_text()
        ),
        sets=("docs",),
    ),
    Case(
        "a model",
        (
            File("trainer/models/toy.py"),
            Line(
                "trainer/models/__init__.py",
                "MODELS_OF",
                '"toy": toy.build',
                "from trainer.models import toy",
                inside="image",
            ),
        ),
        ("train set --model toy --epochs 1 --batch-size 4 --run-dir toy-model",),
        lambda folder, out: (folder / "toy-model" / "model.keras").exists(),
        sets=("set",),
        trains=True,
    ),
    Case(
        "a distribution strategy",
        (
            File("trainer/strategies/toy.py"),
            Line(
                "trainer/strategies/__init__.py",
                "STRATEGIES",
                '"toy": "trainer.strategies.toy:create"',
            ),
        ),
        ("train set --model toy --strategy toy --epochs 1 --batch-size 4 --run-dir toy-run",),
        lambda folder, out: "a toy strategy" in out and (folder / "toy-run/model.keras").exists(),
        sets=("set",),
        trains=True,
    ),
    Case(
        "a target of the export",
        (
            Function("inference/export/targets.py", "_LABELS"),
            Line(
                "inference/export/options.py", "TARGETS", '"toy": "inference.export.targets:to_toy"'
            ),
        ),
        (
            "train set --model small_cnn --image-size 8 --epochs 1 --batch-size 4 --run-dir plain",
            "export plain --to toy --out exported-toy",
        ),
        lambda folder, out: int((folder / "exported-toy" / "model.toy").read_text()) > 1000,
        sets=("set",),
        trains=True,
    ),
    Case(
        "an advice of the doctor",
        (
            Function("trainer/diagnosis/remedies.py", "REMEDIES"),
            Line(
                "trainer/diagnosis/remedies.py",
                "REMEDIES",
                '"toy": Remedy(("storage", "decode", "augment", "step", "cores"), _add_toys)',
            ),
        ),
        ("doctor set --model toy --image-size 8 --batch-size 4 --seconds 0.05 --json",),
        lambda folder, out: "too few toys" in out,
        sets=("set",),
        trains=True,
    ),
]
