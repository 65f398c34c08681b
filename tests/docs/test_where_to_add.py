"""Every row of README's "Where do I add ..." is true: a toy member is added as it says, and used.

All toys go into one copy of the tree, and one process uses them, for starting it is most of the
cost; what trains is a proof. To cover a new row: write a Case, whose edits are what the row says.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
PACKAGES = ("beam_jobs", "cli", "reader", "shard_format", "trainer")


@dataclasses.dataclass(frozen=True)
class File:
    """A new file."""

    path: str
    text: str

    def apply(self, tree: Path) -> None:
        assert not (tree / self.path).exists()
        (tree / self.path).write_text(self.text)


@dataclasses.dataclass(frozen=True)
class Function:
    """A function in a file, above the table that is to name it."""

    path: str
    table: str
    text: str

    def apply(self, tree: Path) -> None:
        lines = (tree / self.path).read_text().splitlines(keepends=True)
        first = _table(tree / self.path, self.table).lineno - 1
        (tree / self.path).write_text("".join([*lines[:first], self.text, "\n\n", *lines[first:]]))


@dataclasses.dataclass(frozen=True)
class Line:
    """An entry at the end of a table (of the table under the key `inside`), and its import."""

    path: str
    table: str
    entry: str
    imports: str = ""
    inside: str = ""

    def apply(self, tree: Path) -> None:
        path = tree / self.path
        value = _table(path, self.table).value
        value = value.args[0] if isinstance(value, ast.Call) else value  # Members({...})
        if self.inside:
            keys = [key.value for key in value.keys]
            value = value.values[keys.index(self.inside)]
        lines = path.read_text().splitlines(keepends=True)
        last = lines[value.end_lineno - 1]
        # "{...}" and "(...)" may be one line, or end with a bracket of their own.
        before, bracket = last[: value.end_col_offset - 1], last[value.end_col_offset - 1 :]
        comma = "" if not before.strip() or before.rstrip().endswith(",") else ", "
        lines[value.end_lineno - 1] = f"{before}{comma}{self.entry},{bracket}"
        if self.imports:
            body = ast.parse("".join(lines)).body
            ends = [n.end_lineno for n in body if isinstance(n, ast.Import | ast.ImportFrom)]
            lines.insert(ends[-1], f"{self.imports}\n")
        path.write_text("".join(lines))


@dataclasses.dataclass(frozen=True)
class Field:
    """A field at the end of the options of a dataclass."""

    path: str
    owner: str
    text: str

    def apply(self, tree: Path) -> None:
        lines = (tree / self.path).read_text().splitlines(keepends=True)
        body = ast.parse("".join(lines)).body
        (owner,) = (n for n in body if isinstance(n, ast.ClassDef) and n.name == self.owner)
        last = [field for field in owner.body if isinstance(field, ast.AnnAssign)][-1]
        lines.insert(last.end_lineno, f"    {self.text}\n")
        (tree / self.path).write_text("".join(lines))


Edit = File | Function | Line | Field


def _table(path: Path, name: str) -> ast.Assign | ast.AnnAssign:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(target, ast.Name) and target.id == name:
                return node
    raise AssertionError(f"{path} has no {name}")


@dataclasses.dataclass(frozen=True)
class Case:
    """A row, and what is done as it says.

    Attributes:
        row: Its first cell.
        edits: The file and the line.
        steps: What uses the toy in the folder of the corpora: the arguments of a `shardmill`, or a
            program that asserts.
        shown: (folder, stdout of the steps) -> whether the toy was used.
        trains: Whether it takes a training, and is a proof.
    """

    row: str
    edits: tuple[Edit, ...]
    steps: tuple[str, ...] = ()
    shown: Callable[[Path, str], bool] = lambda folder, out: True
    trains: bool = False


# Several cases look at these sets, so that each is built once.
BUILDS = (
    "preprocess images images --out set --resize toy:16 --encoding toy --toy 9 --split train=1",
    "preprocess text texts.csv --out docs --label-column label --clean toy --split train=1",
    "preprocess text texts.csv --out packed --no-labels --split train=1 "
    "--train-tokenizer bpe:300 --pack 16 --packing toy",
)


def manifest(folder: Path) -> dict:
    return json.loads((folder / "manifest.json").read_text())


CASES = [
    Case(
        "a file format",
        (
            File(
                "beam_jobs/corpus/formats/toy.py",
                """\
from beam_jobs.corpus.formats.base import Format, FoundRecord
from beam_jobs.corpus.record import RawRecord


class Toy(Format):
    def find(self, part):
        yield FoundRecord("", self.whole(part))

    def parse(self, found, part):
        return RawRecord("", found.data, found.data[3:].decode(), part.annotations, "utf-8")
""",
            ),
            Line(
                "beam_jobs/options/formats.py",
                "FORMATS",
                '"toy": FileFormat(f"{_FORMATS}.toy:Toy", ("text",), (b"TOY",))',
            ),
        ),
        (
            "preprocess text toys --out from-toys --no-labels --split train=1 --no-report",
            "preprocess text toys --out by-flag --format toy --no-labels --split train=1 "
            "--no-report",
        ),
        lambda folder, out: all(
            manifest(folder / name)["ledger"]["kept"] == 2 for name in ("from-toys", "by-flag")
        ),
    ),
    Case(
        "an archive format",
        (
            File(
                "beam_jobs/corpus/containers/toy.py",
                """\
from beam_jobs.corpus.containers.base import Container, Member, make_member
from beam_jobs.corpus.streams import FileRange


class Toy(Container):
    def members(self, file, report):
        for at in range(4, file.size, 5):
            yield make_member(b"%d.txt" % at, "", Member("", at, 5))

    def open(self, path, locator):
        return FileRange(path, locator.offset, locator.size)
""",
            ),
            Line(
                "beam_jobs/options/formats.py",
                "CONTAINERS",
                '"toybox": FileFormat("beam_jobs.corpus.containers.toy:Toy", (), (b"TARC",))',
            ),
        ),
        ("preprocess text archive.bin --out from-archive --no-labels --split train=1 --no-report",),
        lambda folder, out: manifest(folder / "from-archive")["ledger"]["kept"] == 3,
    ),
    Case(
        "a record type",
        (
            File(
                "beam_jobs/options/toy.py",
                """\
import dataclasses
from typing import ClassVar

from beam_jobs.options.base import PreprocessOptions
from shard_format.options import redeclared


@dataclasses.dataclass(frozen=True)
class ToyOptions(PreprocessOptions):
    COMMAND: ClassVar[str] = "toys"
    ABOUT: ClassVar[str] = "Turn toys into a shard set."
    record_type: str = "toy"
    name: str = redeclared(PreprocessOptions, "name", default="toys")
""",
            ),
            File(
                "beam_jobs/record_types/toy.py",
                """\
import hashlib

from beam_jobs.corpus.payload import Payload
from beam_jobs.record_types.base import Prepared, SingleRecords
from shard_format import Feature, Schema


class ToyPayload(Payload):
    noun, plural, column_flag, digits = "toy", "toys", "--toy-column", 9
    columns, limit, needs_class_folders = (), 1 << 20, False

    def __init__(self, options):
        self._options = options

    def resolved(self):
        return self._options

    def container_of(self, item):
        return ""

    def known_format(self, item):
        return "image"  # a file is a record

    def format_of(self, head, name):
        return "image"

    def is_primary(self, name):
        return True

    def holds(self, kind):
        return False

    def cells(self, column, name):
        return []

    def from_bytes(self, data):
        return data

    def from_fields(self, fields):
        return b""

    def example_original(self, features, example, names):
        return example


class ToyRecords(SingleRecords):
    version = 1
    schema = Schema("toy", (Feature("id", "text"), Feature("text", "text")))
    statistics = ()

    def __init__(self, options):
        self.payload = ToyPayload(options)

    def stage_options(self):
        return {}

    def prepare(self, record_id, data):
        return Prepared(
            {"id": record_id, "text": data.decode()[::-1]}, hashlib.md5(data).digest(), {}
        )
""",
            ),
            File(
                "reader/record_types/toy.py",
                """\
from reader.record_types.text import text_records


def toy_records(opened, options):
    return text_records(opened, options)
""",
            ),
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
            Line(
                "reader/record_types/__init__.py",
                "RECORD_TYPES",
                '"toy": toy_records',
                "from reader.record_types.toy import toy_records",
            ),
        ),
        (
            "preprocess toys toys --out toy-set --no-labels --split train=1 --no-report",
            "import reader\n"
            'stream = reader.load("toy-set", batch_size=2, shuffle="off", epochs=1)\n'
            "(batch,) = stream.numpy()\n"
            'assert all(text.endswith(b"YOT") for text in batch.tolist()), batch',
        ),
        lambda folder, out: manifest(folder / "toy-set")["schema"]["record_type"] == "toy",
    ),
    Case(
        "a filter for images",
        (
            File(
                "beam_jobs/images/filters/toy.py",
                """\
from beam_jobs.corpus.record import FILTER, Rejection


def toy(side, image):
    if min(image.pixels.shape[:2]) < side:
        raise Rejection("toy", f"its shorter side is below {side}", stage=FILTER)
""",
            ),
            Line(
                "beam_jobs/images/filters/__init__.py",
                "STEPS",
                '"toy": toy',
                "from beam_jobs.images.filters.toy import toy",
            ),
            Field(
                "beam_jobs/options/image.py",
                "ImageOptions",
                'toy: int | None = option(None, "Leave out toys.", "N", type=int)',
            ),
        ),
        shown=lambda folder, out: manifest(folder / "set")["ledger"]["reasons"] == {"toy": 1},
    ),
    Case(
        "a cleaning step for text",
        (
            File(
                "beam_jobs/text/cleaning/toy.py",
                """\
import dataclasses
from typing import ClassVar

from beam_jobs.text.cleaning.base import Rule


@dataclasses.dataclass(frozen=True)
class Toy:
    word: str = "toy"
    reports: ClassVar = ()
    packages: ClassVar = ()

    def __call__(self, texts):
        out = texts.measured.containing(self.word)
        texts.leave_out(Rule("toy", out, lambda row: f"it has the word {self.word}"))
""",
            ),
            Line(
                "beam_jobs/text/cleaning/__init__.py",
                "STEPS",
                '"toy": Toy',
                "from beam_jobs.text.cleaning.toy import Toy",
            ),
        ),
        shown=lambda folder, out: manifest(folder / "docs")["ledger"]["reasons"] == {"toy": 1},
    ),
    Case(
        "an encoding",
        (
            Function(
                "beam_jobs/images/encode.py",
                "ENCODERS",
                """\
def encode_toy(image, quality):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "BMP")
    return file.getvalue()
""",
            ),
            Line("beam_jobs/images/encode.py", "ENCODERS", '"toy": encode_toy'),
            Function(
                "reader/records/decoders.py",
                "DECODERS",
                """\
def decode_toy(features, crop):
    return _cut(tf.io.decode_bmp(features["image"], channels=3), crop)
""",
            ),
            Line("reader/records/decoders.py", "DECODERS", '"toy": Decoder(decode_toy)'),
            Line("shard_format/schema.py", "ENCODINGS", '"toy"'),
        ),
        (
            "import reader\n"
            "images, _ = next(iter(reader.load('set', batch_size=4, augment='none').dataset))\n"
            "assert images.shape == (4, 16, 16, 3), images.shape\n"
            "assert len(set(images.numpy().ravel())) > 9\n",
        ),
    ),
    Case(
        "a resize mode",
        (
            Function(
                "beam_jobs/images/resize.py",
                "RESIZE_MODES",
                """\
def _toy(width, height, resize):
    return resize.width, resize.width
""",
            ),
            Line("beam_jobs/images/resize.py", "RESIZE_MODES", r'"toy": Mode(r"(\d+)", _toy)'),
        ),
        shown=lambda folder, out: (
            manifest(folder / "set")["splits"]["train"]["statistics"]["width"]["max"] >= 16
            and manifest(folder / "set")["config"]["resize"] == "toy:16"
        ),
    ),
    Case(
        "a reader transform for images",
        (
            File(
                "reader/transforms/toy.py",
                """\
import dataclasses
from typing import ClassVar

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Toy:
    stage: ClassVar[str] = "resized"
    num_random: ClassVar[int] = 0

    def __call__(self, example, random):
        return {**example, "image": tf.fill(tf.shape(example["image"]), 7.0)}
""",
            ),
            Line(
                "reader/transforms/__init__.py",
                "TRANSFORMS",
                '"toy": Toy',
                "from reader.transforms.toy import Toy",
            ),
        ),
        (
            "import reader\n"
            "stream = reader.load('set', batch_size=4, image_size=8, augment='standard,toy')\n"
            "images, _ = next(iter(stream.dataset))\n"
            "assert set(images.numpy().ravel()) == {7}\n",
        ),
    ),
    Case(
        "a reader transform for text",
        (
            File(
                "reader/transforms/text/toy.py",
                """\
import tensorflow as tf


def toy(text, draws):
    return tf.fill(tf.shape(text), "a toy")
""",
            ),
            Line(
                "reader/transforms/text/__init__.py",
                "TEXT_TRANSFORMS",
                '"toy": toy',
                "from reader.transforms.text.toy import toy",
            ),
            Line("reader/transforms/text/__init__.py", "TEXT_AUGMENTATIONS", '"toy": (("toy",),)'),
        ),
        (
            "import reader\n"
            "texts, _ = next(iter(reader.load('docs', batch_size=2, augment='toy').dataset))\n"
            "assert set(texts.numpy()) == {b'a toy'}\n",
        ),
    ),
    Case(
        "an index for another reader",
        (
            Function(
                "reader/index_export.py",
                "INDEX_FORMATS",
                """\
def toy_index(offsets, sizes):
    return f"{len(offsets)} toys".encode()
""",
            ),
            Line(
                "reader/index_export.py", "INDEX_FORMATS", '"toy": IndexFormat(".toy", toy_index)'
            ),
        ),
        ("export-index set --format toy --out exported",),
        lambda folder, out: (
            {f.read_text() for f in (folder / "exported").glob("*.toy")} == {"9 toys"}
        ),
    ),
    Case(
        "a way to pack",
        (
            File(
                "beam_jobs/text/packings/toy.py",
                """\
def toy(documents, length):
    for document in documents:
        yield [document.cut(0, min(length, len(document.tokens)))]
""",
            ),
            Line(
                "beam_jobs/text/packings/__init__.py",
                "PACKINGS",
                '"toy": "beam_jobs.text.packings.toy:toy"',
            ),
        ),
        shown=lambda folder, out: manifest(folder / "packed")["config"]["packing"] == "toy",
    ),
    Case(
        "a command",
        (
            File(
                "cli/commands/toy.py",
                """\
import click


@click.command()
@click.argument("name")
def toy(name):
    click.echo(f"a toy for {name}")
""",
            ),
            Line("cli/main.py", "_COMMANDS", "toy", "from cli.commands.toy import toy"),
        ),
        ("toy everybody",),
        lambda folder, out: "a toy for everybody" in out,
    ),
    Case(
        "a section of the report",
        (
            File(
                "beam_jobs/report/sections/toy.py",
                """\
from beam_jobs.report.markup import note


def content(facts):
    return note(f"{facts.manifest.ledger.kept} toys")
""",
            ),
            Line(
                "beam_jobs/report/sections/__init__.py",
                "SECTIONS",
                'Section("toys", "All toys", toy.content)',
                "from beam_jobs.report.sections import toy",
            ),
        ),
        ("report docs",),
        lambda folder, out: (
            "All toys" in (page := (folder / "docs" / "report.html").read_text())
            and "9 toys" in page
        ),
    ),
    Case(
        "a model",
        (
            File(
                "trainer/models/toy.py",
                """\
def build(input_shape, num_classes):
    import keras

    pixels = keras.Input(input_shape)
    x = keras.layers.Flatten()(keras.layers.Rescaling(1 / 255)(pixels))
    return keras.Model(pixels, keras.layers.Dense(num_classes)(x))
""",
            ),
            Line(
                "trainer/models/__init__.py",
                "MODELS_OF",
                '"toy": toy.build',
                "from trainer.models import toy",
                inside="image",
            ),
        ),
        ("train set --model toy --epochs 1 --image-size 8 --batch-size 4 --run-dir toy-model",),
        lambda folder, out: (folder / "toy-model" / "model.keras").exists(),
        trains=True,
    ),
    Case(
        "a distribution strategy",
        (
            File(
                "trainer/strategies/toy.py",
                """\
def create():
    import tensorflow as tf

    print("a toy strategy")
    return tf.distribute.get_strategy()
""",
            ),
            Line(
                "trainer/strategies/__init__.py",
                "STRATEGIES",
                '"toy": toy.create',
                "from trainer.strategies import toy",
            ),
        ),
        (
            "train set --model toy --strategy toy --epochs 1 --image-size 8 --batch-size 4 "
            "--run-dir toy-run",
        ),
        lambda folder, out: "a toy strategy" in out and (folder / "toy-run/model.keras").exists(),
        trains=True,
    ),
    Case(
        "an advice of the doctor",
        (
            File(
                "trainer/diagnosis/remedies/toy.py",
                """\
import dataclasses

from trainer.diagnosis.advice import Trial


def attempt(case):
    times = {
        field.name: getattr(case.costs, field.name) / 9
        for field in dataclasses.fields(case.costs)
        if field.name.endswith("_seconds") and field.name != "cpu_seconds"
    }
    cpu = {name: seconds / 9 for name, seconds in case.costs.cpu_seconds.items()}
    costs = dataclasses.replace(case.costs, **times, cpu_seconds=cpu)
    return Trial("toy", "step", "there are too few toys", costs, {"--batch-size": "2"})
""",
            ),
            Line(
                "trainer/diagnosis/remedies/__init__.py",
                "REMEDIES",
                '"toy": Remedy(("storage", "decode", "augment", "step", "cores"), toy.attempt)',
                "from trainer.diagnosis.remedies import toy",
            ),
        ),
        ("doctor set --model toy --image-size 8 --batch-size 4 --seconds 0.05 --json",),
        lambda folder, out: "too few toys" in out,
        trains=True,
    ),
]

# Runs the steps of every case, in one process: [[rc and stdout, or a traceback], ...] as JSON.
RUNNER = """
import json, sys
from pathlib import Path
from tests.fixtures.command_line import run_here, run_shardmill

folder, found = Path.cwd(), []
for step in json.loads(sys.argv[1]):
    if "import " in step:
        done = run_here(lambda: exec(step, {}), folder, ["program"])
    else:
        done = run_shardmill(folder, *step.split())
    found.append([done.returncode, done.stdout, done.stderr])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """A copy of the packages, with all toys in it."""
    tree = tmp_path_factory.mktemp("tree")
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(repository / package, tree / package, ignore=ignored)
    (tree / "tests" / "fixtures").mkdir(parents=True)
    shutil.copy(repository / "tests/fixtures/command_line.py", tree / "tests/fixtures")
    for case in CASES:
        for edit in case.edits:
            edit.apply(tree)
    return tree


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, samples: Path) -> Path:
    """Nine images and a tiny one; nine documents and one about a toy."""
    folder = tmp_path_factory.mktemp("toys")
    for name in ("dress", "hat", "pants"):
        (folder / "images" / name).mkdir(parents=True)
        for number, file in enumerate(sorted((samples / name).glob("*.jpg"))[1:4]):
            Image.open(file).convert("RGB").resize((40, 30)).save(
                folder / "images" / name / f"{number}.png"
            )
    Image.new("RGB", (5, 5), "red").save(folder / "images" / "hat" / "tiny.png")
    rows = [f"{'word ' * number}and number {number},{number % 2}" for number in range(9)]
    (folder / "toys").mkdir()
    for number in range(2):
        (folder / "toys" / f"{number}.bin").write_bytes(b"TOYdocument %d" % number)
    (folder / "archive.bin").write_bytes(b"TARCwordAwordBwordC")
    (folder / "texts.csv").write_text("\n".join(["text,label", *rows, "about a toy,1"]))
    return folder


@pytest.fixture(scope="module")
def use(tree: Path, folder: Path) -> Callable[[tuple[str, ...]], list[tuple[int, str, str]]]:
    """Runs steps with the toys, in one process."""

    def use(steps: tuple[str, ...]) -> list[tuple[int, str, str]]:
        done = subprocess.run(
            [sys.executable, "-c", RUNNER, json.dumps(steps)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(tree)},
            capture_output=True,
            text=True,
            check=False,
            timeout=250,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return use


@pytest.fixture(scope="module")
def built(use: Callable[..., list[tuple[int, str, str]]]) -> dict[str, list[tuple[int, str, str]]]:
    """What the steps of each cheap case gave, by row; all of them in the process of the builds."""
    cheap = [case for case in CASES if not case.trains]
    steps = (*BUILDS, *(step for case in cheap for step in case.steps))
    found = use(steps)
    for step, (code, _, err) in zip(BUILDS, found, strict=False):
        assert code == 0, f"{step}\n{err}"
    rest = iter(found[len(BUILDS) :])
    return {case.row: [next(rest) for _ in case.steps] for case in cheap}


def rows() -> dict[str, str]:
    """First cell -> the others, of README's table."""
    (table,) = re.findall(r"^\| to add \|.*\n\|[- |]*\|\n((?:\|.*\n)+)", README, re.MULTILINE)
    return {line.split("|")[1].strip(): line.split("|", 2)[2] for line in table.splitlines()}


def test_every_row_has_a_case() -> None:
    assert set(rows()) == {case.row for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.row)
def test_the_edits_are_what_the_row_says(case: Case) -> None:
    row = rows()[case.row]
    folders = {str(Path(path).parent) for path in re.findall(r"`([a-z_/A-Z.]+\.py)`", row)}
    for edit in case.edits:
        if isinstance(edit, File):
            assert f"`{edit.path.replace('toy', 'NAME')}`" in row
        else:
            assert f"`{edit.path}`" in row or str(Path(edit.path).parent) in folders
        if isinstance(edit, Line):
            assert f"`{edit.table}`" in row


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.proof] if case.trains else [], id=case.row)
        for case in CASES
    ],
)
def test_a_toy_is_used(case: Case, built, use, folder: Path) -> None:
    found = use(case.steps) if case.trains else built[case.row]
    for step, (code, _, err) in zip(case.steps, found, strict=True):
        assert code == 0, f"{step}\n{err}"
    assert case.shown(folder, "".join(out for _, out, _ in found))
