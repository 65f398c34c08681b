"""--config, --save-config and --like: options of a command as a file, or from another set."""

from __future__ import annotations

import dataclasses
import json
import shutil
import tempfile
import tomllib
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from beam_jobs.options import OPTIONS, ImageOptions, TextOptions
from cli.commands.preprocess import preprocess
from cli.commands.train import train
from cli.config_file import config_text, save
from foundation.config_file import key_of, read_config
from foundation.options import declared
from shard_format import UsageError
from tests.fixtures.proofs import examples

FURTHER = {"sources": tuple, "out": str}
# TOML has no lone surrogates, and a path no zero byte.
TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1)
# Values of options that a check restricts to a form.
FORMS = {
    "name": ["a", "photos_2"],
    "split": ["folders", "column:fold", "train=0.5,test=0.5", "a=0.25,b=0.75"],
    "quality": ["1", "100", "keep", "keep:80"],
    "include": ["*.jpg", "*.jpg,raw/*"],
    "exclude": ["*.py", "a/*,b?"],
    "keep_columns": ["caption", "author,year:int64"],
    "encoding": ["utf-8", "auto", "cp1252"],
    "columns": ["a,b"],
    "text_column": ["body", "title,body"],
    "languages": ["en", "en,de"],
    "decontaminate": ["bench.txt", "a.txt,b.txt"],
    "train_tokenizer": ["bpe:2000", "unigram:300"],
}
SIZES = ["1", "128MiB", "1.5 GB"]


def value_of(field):
    metadata = field.metadata
    if metadata["type"] is bool:
        return st.booleans()
    if metadata["choices"]:
        return st.sampled_from(list(metadata["choices"]))
    if field.name in FORMS:
        return st.sampled_from(FORMS[field.name])
    if metadata["metavar"] == "SIZE":
        return st.sampled_from(SIZES)
    if metadata["type"] in (int, float):
        limits = metadata["limits"]
        if metadata["type"] is int:
            return st.integers(limits.low, limits.high)
        return st.floats(limits.low, limits.high, exclude_min=limits.low in limits.excluded)
    return TEXT


@st.composite
def jobs(draw):
    """Options of a job: a few are given, the others have their defaults."""
    kind = draw(st.sampled_from([ImageOptions, TextOptions]))
    fields = list(declared(kind))
    given = draw(st.lists(st.sampled_from(fields), max_size=8, unique_by=lambda one: one.name))
    values = {field.name: draw(value_of(field)) for field in given}
    try:
        return kind(draw(st.lists(TEXT, min_size=1, max_size=3)), draw(TEXT), **values)
    except UsageError:  # options that exclude each other
        assume(False)


@given(jobs())
@settings(max_examples=examples(60))
def test_saved_options_are_read_as_they_were(options):
    kind, command = type(options), preprocess.commands[options.COMMAND]
    further = {"sources": options.sources, "out": options.out}
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/job.toml"
        save(path, options, further, "shardmill preprocess")
        assert kind(**read_config(path, declared(kind), FURTHER)) == options
        parsed = command.make_context("job", ["--config", path]).params
    known = {field.name for field in dataclasses.fields(kind)}
    assert kind(**{name: value for name, value in parsed.items() if name in known}) == options


def test_a_saved_file_explains_every_option():
    text = config_text(ImageOptions("photos", "set"), {"out": "set"}, "shardmill preprocess images")
    assert max(map(len, text.splitlines())) <= 80
    for field in declared(ImageOptions):
        assert f"{key_of(field.name)} =" in text
    assert tomllib.loads(text)["resize"] == "shorter:256"


@pytest.fixture
def config(tmp_path):
    def write(text):
        path = tmp_path / "job.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('seed = 1\nlabel-colum = "a"', "'label-colum' in {}, line 2. Did you mean 'label-column'"),
        ("xyz = 1", "Unknown option 'xyz' in {}, line 1. Remove it"),
        ('seed = "1"', "seed is 1 in {}, line 1. Write an integer."),
        ("seed = 1.0", "seed is 1.0 in {}, line 1. Write an integer."),
        ("seed = true", "Write an integer."),
        ("seed = -1", "seed is -1 in {}, line 1. Pass an integer in"),
        ("blank = inf", "Pass a finite number"),
        (f"blank = 1{'0' * 400}", "Write a number."),
        ("stratify = 1", "stratify is 1 in {}, line 1. Write true or false."),
        ('encoding = "jpg"', "Unknown encoding 'jpg' in {}, line 1. Did you mean 'jpeg'"),
        ('shard-size = "x"', "shard-size in {}, line 1 'x' is not a size."),
        ('keep-columns = ["a"]', "Write text in quotes"),
        ("sources = [1]", "Write a list of text"),
        ("out = 1", "out is 1 in {}, line 1. Write text in quotes"),
        ("resize = 2026-01-01", "resize is 2026-01-01 in {}, line 1. Write text"),
        ('name = "a\\u0000"', "zero byte"),
        ("[images]\nseed = 1", "'images' in {}, line 1 is a table"),
        ('label-column = "a"\nlabel_column = "b"', "line 2 repeats 'label_column'"),
        ("seed = 1\nseed = 2", "{} is not TOML: Cannot overwrite a value"),
        ("a = " + "[" * 5000, "{} is not TOML"),
        (b"a = '\xff'", "{} is not UTF-8 (byte 5)"),
    ],
)
def test_a_wrong_file_is_refused_with_the_line(config, shardmill, text, message):
    path = config(text)
    done = shardmill("preprocess", "images", "photos", "--out", "set", "--config", path)
    assert done.returncode == 2
    assert message.format(path) in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("path", ["missing.toml", "/", "/dev/zero"])
def test_a_file_that_cannot_be_read_is_refused(shardmill, path):
    done = shardmill("preprocess", "images", "--config", path)
    assert done.returncode == 3 and path in done.stderr and "Traceback" not in done.stderr


def test_flags_win_over_the_file(config):
    path = config('sources = ["a", "b"]\nout = "set"\nquality = 80\nseed = 1\nnear-threshold = 1')
    command = preprocess.commands["images"]
    parsed = command.make_context("images", ["c", "--seed", "2", "--config", str(path)]).params
    assert parsed["sources"] == ("c",) and parsed["seed"] == 2
    assert parsed["out"] == "set" and parsed["quality"] == "80"
    assert parsed["near_threshold"] == 1.0


def test_train_takes_a_file_too(config, tmp_path, shardmill):
    path = config('directory = "set"\nrun_dir = "run"\nepochs = 3\nlearning-rate = 1\n')
    parsed = train.make_context("train", ["--config", str(path), "--epochs", "4"]).params
    assert parsed["directory"] == Path("set") and parsed["run_dir"] == Path("run")
    assert parsed["epochs"] == 4 and parsed["learning_rate"] == 1.0
    path = config("epoch = 3")
    done = shardmill("train", tmp_path, "--config", path)
    assert done.returncode == 2 and "Did you mean 'epochs'?" in done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory, write_jpeg_folder):
    return write_jpeg_folder(tmp_path_factory.mktemp("like"))


@pytest.fixture(scope="module")
def write_jpeg_folder(samples):
    """A corpus of twelve samples, and a set of it with some options and a saved file."""

    def write(folder):
        for place in sorted(samples.glob("*/*.jpg"))[::30]:
            target = folder / "photos" / place.parent.name / place.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(place, target)
        return folder

    return write


def root_hash(folder):
    return json.loads((folder / "manifest.json").read_text())["root_hash"]


def test_a_set_is_built_again_from_its_file_or_like_it(built, shardmill):
    """The file alone is a whole job for Beam too; --workers and --name are not taken from a set."""
    common = ("--no-report", "--json")
    asked = ("--resize", "shorter:32", "--seed", 7, "--split", "train=0.5,test=0.5", "--workers", 1)
    job = ("preprocess", "images", built / "photos", "--out", built / "set", *asked, *common)
    done = shardmill(*job, "--save-config", built / "job.toml")
    assert done.returncode == 0, done.stderr
    shutil.move(built / "set", built / "first")
    again = shardmill("preprocess", "images", "--config", built / "job.toml", "--json")
    assert again.returncode == 0, again.stderr
    out = ("preprocess", "images", built / "photos", "--out")
    like = shardmill(*out, built / "like", "--like", built / "first", *common)
    assert like.returncode == 0, like.stderr
    other = shardmill(
        *out, built / "other", "--like", built / "first", "--seed", 8, "--config",
        built / "job.toml", *common,
    )  # fmt: skip
    assert other.returncode == 0, other.stderr
    assert root_hash(built / "set") == root_hash(built / "like") == root_hash(built / "first")
    assert root_hash(built / "other") != root_hash(built / "first")
    saved = json.loads((built / "like" / "build.json").read_text())["options"]
    assert saved["resize"] == "shorter:32" and saved["workers"] is None


def test_like_works_for_sets_of_the_first_version(repository):
    golden = repository / "tests" / "golden" / "v1" / "set"
    command = preprocess.commands["images"]
    parsed = command.make_context("images", ["x", "--out", "y", "--like", str(golden)]).params
    assert parsed["resize"] == "shorter:32" and parsed["quality"] == "60"
    assert parsed["split"] == "train=0.9,test=0.1" and parsed["num_shards"] == 2
    assert parsed["shard_size"] == "134217728" and parsed["source"] == "auto"


def test_like_refuses_sets_that_do_not_fit(repository, built, shardmill, text_set):
    golden = repository / "tests" / "golden" / "v1" / "set"
    done = shardmill("preprocess", "text", "x", "--out", "y", "--like", golden)
    assert done.returncode == 2 and "has image records" in done.stderr
    done = shardmill("preprocess", "text", "x", "--out", "y", "--like", text_set(train=[("a", 0)]))
    assert done.returncode == 3 and "does not say how the set was built" in done.stderr
    done = shardmill("preprocess", "images", "x", "--out", "y", "--like", built / "photos")
    assert done.returncode == 3 and "manifest" in done.stderr


def test_like_takes_the_tokenizer_that_a_set_contains(tmp_path, text_set):
    from beam_jobs.like import options_like

    directory = text_set(train=[("a", 0)])
    (directory / "tokenizer.json").write_text("{}")
    asked = TextOptions("x", "y", tokenizer="/gone/tok.json", staging="/fast", clean="nfc")
    build = {"options": dataclasses.asdict(asked)}
    (directory / "build.json").write_text(json.dumps(build))
    options = options_like(directory, OPTIONS["text"])
    assert options["tokenizer"] == str(directory / "tokenizer.json") and options["clean"] == "nfc"
    assert not options.keys() & {"sources", "out", "staging", "workers", "source", "record_type"}
    build["options"]["invented"] = 1
    (directory / "build.json").write_text(json.dumps(build))
    with pytest.raises(Exception, match="does not know: invented"):
        options_like(directory, OPTIONS["text"])
