"""Sets from hf:// and https://: those of the same files on a disk, whatever happens on the way."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import reader
from beam_jobs import ImageOptions, TextOptions, append, preprocess
from beam_jobs.dry_run import dry_run
from beam_jobs.repair import repair
from shard_format import InputError, UsageError, load_build, naming
from tests.fixtures.web import TOKEN, Faults, slowly

NAME = "owner/name"
URL = f"hf://datasets/{NAME}"
CARD = "---\nlicense: cc0-1.0\n---\n# A card\n"


def text_of(number: int) -> str:
    return f"Document {number} says that {number * 7919} follows {number * 104729} in a long list."


def write_hub_layout(folder: Path) -> None:
    """Parquet with class names as Hugging Face datasets write them, a card, and attributes."""
    features = {"label": {"names": ["negative", "positive"], "_type": "ClassLabel"}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    for split, numbers in (("train", range(300)), ("validation", range(300, 340))):
        table = pa.table({"text": map(text_of, numbers), "label": [n % 2 for n in numbers]})
        for part in range(2):
            rows = table.slice(part * len(table) // 2, len(table) // 2)
            path = folder / "data" / f"{split}-{part:05d}-of-00002.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows.replace_schema_metadata(metadata), path)
    (folder / "README.md").write_text(CARD)
    (folder / ".gitattributes").write_text("*.parquet filter=lfs\n")


def write_webdataset(folder: Path, images: Path) -> None:
    folder.mkdir()
    paths = sorted(images.rglob("*.jpg"))
    for part in range(2):
        with tarfile.open(folder / f"train-{part:04d}.tar", "w") as archive:
            for number, path in enumerate(paths[part::2]):
                label = path.parent.name.encode()
                for suffix, data in ((".jpg", path.read_bytes()), (".cls", label)):
                    info = tarfile.TarInfo(f"{number:05d}{suffix}")
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))


@pytest.fixture
def corpus(request, tmp_path, make_images):
    """(options, folder) of a kind of dataset."""
    folder = tmp_path / "files"
    if request.param == "parquet":
        write_hub_layout(folder)
        return TextOptions, folder
    if request.param == "lines":
        folder.mkdir()
        lines = "".join(json.dumps({"text": text_of(n)}) + "\n" for n in range(400))
        for codec, suffix in (("zstd", "zst"), ("gzip", "gz")):
            with pa.CompressedOutputStream(str(folder / f"docs.jsonl.{suffix}"), codec) as sink:
                sink.write(lines.replace("Document", codec).encode())
        return TextOptions, folder
    images = make_images(count=24, side=64)
    if request.param == "webdataset":
        write_webdataset(folder, images)
        return ImageOptions, folder
    for split in ("train", "test"):
        shutil.copytree(images, folder / split)
        for path in (folder / split).rglob("0*.jpg"):  # other ones of it
            if int(path.stem) > 11 or (int(path.stem) % 2 == 0) == (split == "train"):
                path.unlink()
    return ImageOptions, folder


KINDS = pytest.mark.parametrize(
    "corpus", ["parquet", "lines", "webdataset", "folders"], indirect=True
)


def build(kind, sources, out, **options):
    sources = (sources,) if isinstance(sources, str | Path) else sources
    return preprocess(kind(tuple(map(str, sources)), str(out), num_shards=2, **options))


@KINDS
def test_a_dataset_gives_the_set_of_its_files(hub, corpus, tmp_path):
    kind, folder = corpus
    hub.page = 3
    commit = hub.commit(NAME, folder)
    local = build(kind, folder, tmp_path / "local").manifest
    done = build(kind, URL, tmp_path / "set")
    assert done.manifest.root_hash == local.root_hash
    assert done.manifest.ledger == local.ledger
    assert done.manifest.ledger.kept >= 12
    assert f"{URL} is read at commit {commit}." in done.summary()["notes"]
    assert load_build(tmp_path / "set")["options"]["sources"] == [f"{URL}@{commit}"]
    assert build(kind, f"{URL}@main", tmp_path / "set").already_built
    assert build(kind, f"{URL}@{commit}", tmp_path / "set").already_built


@KINDS
def test_faults_do_not_change_the_set(hub, corpus, tmp_path):
    kind, folder = corpus
    hub.commit(NAME, folder)
    local = build(kind, folder, tmp_path / "local").manifest
    hub.faults.append(faults := Faults("busy"))
    hub.store.faults.append(stored := Faults("broken", "cut", "silent", "unavailable"))
    hub.store.faults.append(slowly)
    assert build(kind, URL, tmp_path / "set").manifest.root_hash == local.root_hash
    assert faults.planted >= 3
    assert stored.planted >= 4 or not hub.store.requests


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("corpus", ["parquet", "lines", "webdataset"], indirect=True)
def test_files_of_a_web_server_give_the_set_of_their_copies(web, corpus, tmp_path, ranges):
    kind, folder = corpus
    web.ranges, web.head = ranges, False
    paths = sorted(path for path in folder.rglob("[dt]*-*[.]*") if path.is_file())
    paths = paths or sorted(folder.iterdir())
    shutil.copytree(folder, web.folder / "some files")
    urls = [f"{web.url}/some%20files/{path.relative_to(folder).as_posix()}" for path in paths]
    for number, (sources, there) in enumerate([(paths, urls), (paths[:1], urls[:1])]):
        local = build(kind, sources, tmp_path / f"local{number}").manifest
        web.faults.append(Faults("cut", "busy"))
        done = build(kind, there, tmp_path / f"set{number}")
        assert done.manifest.root_hash == local.root_hash
        assert build(kind, there, tmp_path / f"set{number}").already_built


@pytest.mark.parametrize("killed", [False, pytest.param(True, marks=pytest.mark.proof)])
def test_processes_share_the_copy_of_a_file_without_ranges(web, tmp_path, killed):
    web.ranges = False
    lines = "".join(json.dumps({"text": f"{text_of(n)} " * 120}) + "\n" for n in range(4000))
    (web.folder / "docs.jsonl").write_text(lines)
    size, copies = len(lines), tmp_path / "temporary" / f"shardmill-web-{os.getuid()}"
    out = tmp_path / "set"
    command = [sys.executable, "-m", "cli.main", "preprocess", "text", f"{web.url}/docs.jsonl"]
    command += ["--out", str(out), "--worker-type", "processes", "--workers", "2"]
    command += ["--unit-size", "2MiB", "--num-shards", "2"]
    if killed:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not any((out / naming.WORK_DIR).glob("units/*.json")):
            assert process.poll() is None
        process.kill()
        process.wait()
        assert len(list(copies.iterdir())) == 1
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert size <= web.sent < 2 * size  # other answers are closed at their heads
    assert not list(copies.iterdir())
    local = build(TextOptions, web.folder / "docs.jsonl", tmp_path / "local").manifest
    assert json.loads((out / naming.MANIFEST).read_text())["root_hash"] == local.root_hash


def test_several_datasets_are_called_as_their_folders(hub, tmp_path, make_images):
    for name in ("a", "b"):
        make_images(count=12, name=f"owner/{name}", side=40 if name == "a" else 44)
        hub.commit(f"owner/{name}", tmp_path / "owner" / name)
    sources = [tmp_path / "owner/a", tmp_path / "owner/b"]
    local = build(ImageOptions, sources, tmp_path / "local").manifest
    urls = ["hf://datasets/owner/a", "hf://datasets/owner/b@main"]
    assert build(ImageOptions, urls, tmp_path / "set").manifest.root_hash == local.root_hash


@pytest.mark.parametrize("corpus", ["parquet"], indirect=True)
@pytest.mark.parametrize(
    "below", ["data/train-*.parquet", "data", "data/train-00000-of-00002.parquet"]
)
def test_part_of_a_dataset(hub, corpus, tmp_path, below):
    kind, folder = corpus
    hub.commit(NAME, folder, "refs/convert/parquet")
    local = build(kind, folder / below, tmp_path / "local").manifest
    url = f"{URL}@refs/convert/parquet/{below}"
    assert build(kind, url, tmp_path / "set").manifest.root_hash == local.root_hash


@pytest.mark.parametrize("corpus", ["parquet"], indirect=True)
def test_a_dry_run_reads_one_commit(hub, corpus, tmp_path):
    kind, folder = corpus
    commit = hub.commit(NAME, folder)
    local = dry_run(kind((str(folder),), str(tmp_path / "set")))
    done = dry_run(kind((URL,), str(tmp_path / "set")))
    assert done.options.sources == (f"{URL}@{commit}",)
    assert (done.files, done.bytes, done.classes) == (local.files, local.bytes, local.classes)
    assert done.trial.kept and local.trial.kept  # how many depends on the clock
    assert done.ignored == local.ignored == 2  # the card and .gitattributes
    assert not (tmp_path / "set").exists()


def test_a_branch_that_moves_within_a_build(hub, tmp_path, make_images):
    corpus = make_images(count=24, side=64)
    first = hub.commit(NAME, corpus)
    local = build(ImageOptions, corpus, tmp_path / "local").manifest
    shutil.rmtree(corpus / "class1")

    def move(handler):
        if "/resolve/" in handler.path:
            hub.faults.clear()
            hub.commit(NAME, corpus)
        return False

    hub.faults.append(move)
    done = build(ImageOptions, URL, tmp_path / "set")
    assert hub.branches[NAME, "main"] != first
    assert done.manifest.root_hash == local.root_hash
    asked = [one.path for one in hub.requests if "/resolve/" in one.path or "/tree/" in one.path]
    assert asked and all(first in path for path in asked)


def test_a_branch_that_moves_between_builds(hub, tmp_path, make_images):
    corpus = make_images(count=24, side=64)
    first = hub.commit(NAME, corpus)
    build(ImageOptions, URL, tmp_path / "set")
    added = make_images(count=8, name="added", side=70) / "class0" / "000.jpg"
    second = hub.commit(NAME, corpus)  # the same files
    assert build(ImageOptions, URL, tmp_path / "set").already_built
    shutil.copy(added, corpus / "class2" / "new.jpg")
    third = hub.commit(NAME, corpus)
    assert len({first, second, third}) == 3
    with pytest.raises(InputError) as raised:
        build(ImageOptions, URL, tmp_path / "set")
    assert f"{URL} is at commit {third}, {first} then" in str(raised.value)
    assert f"{URL}: 24 files" in str(raised.value) and "25 files" in str(raised.value)
    assert build(ImageOptions, f"{URL}@{first}", tmp_path / "set").already_built
    append(ImageOptions((URL,), str(tmp_path / "set"), append=True))
    builds = sorted((tmp_path / "set").rglob(naming.BUILD))
    read = [load_build(path.parent)["inputs"]["sources"][0]["items"] for path in builds]
    assert sorted(read) == [1, 24]  # files that are known are not read again
    local = build(ImageOptions, corpus, tmp_path / "local").manifest
    assert build(ImageOptions, URL, tmp_path / "set2").manifest.root_hash == local.root_hash
    build(ImageOptions, URL, tmp_path / "set3")
    (corpus / "class2" / "new.jpg").unlink()
    fourth = hub.commit(NAME, corpus)
    done = build(ImageOptions, URL, tmp_path / "set3", overwrite=True)
    assert load_build(tmp_path / "set3")["options"]["sources"] == [f"{URL}@{fourth}"]
    assert done.manifest.ledger.read == 24


def test_a_repair_reads_the_commit_of_the_build(hub, tmp_path, make_images):
    corpus, out = make_images(count=24, side=64), tmp_path / "set"
    hub.commit(NAME, corpus)
    manifest = build(ImageOptions, URL, out).manifest
    shard = out / manifest.splits["train"].shards[0].file
    whole = shard.read_bytes()
    shard.unlink()
    shutil.rmtree(corpus / "class1")
    hub.commit(NAME, corpus)
    repair(out)
    assert shard.read_bytes() == whole


def test_a_table_of_labels_is_read_at_the_same_commit(hub, web, tmp_path, make_images):
    corpus = make_images(count=12, side=64)
    flat = tmp_path / "flat"
    flat.mkdir()
    rows = ["path,label"]
    for path in sorted(corpus.rglob("*.jpg")):
        shutil.copy(path, flat)
        rows.append(f"{path.name},{path.parent.name}")
    (flat / "labels.csv").write_text("\n".join(rows))
    commit = hub.commit(NAME, flat)
    shutil.copy(flat / "labels.csv", web.folder)
    local = build(ImageOptions, flat, tmp_path / "local", labels=str(flat / "labels.csv")).manifest
    for number, labels in enumerate((f"{URL}/labels.csv", f"{web.url}/labels.csv")):
        done = build(ImageOptions, URL, tmp_path / f"set{number}", labels=labels)
        assert done.manifest.root_hash == local.root_hash
    there = load_build(tmp_path / "set0")["options"]["labels"]
    assert there == f"{URL}@{commit}/labels.csv"


@pytest.mark.parametrize(
    ("kill_at", "moves"),
    [
        ("unit", True),
        pytest.param("unit", False, marks=pytest.mark.proof),
        pytest.param(3, False, marks=pytest.mark.proof),
        pytest.param(50, True, marks=pytest.mark.proof),
    ],
)
def test_a_killed_build_resumes(hub, tmp_path, make_images, moves, kill_at):
    corpus = make_images(count=40, side=64)
    first = hub.commit(NAME, corpus)
    local = build(ImageOptions, corpus, tmp_path / "local").manifest
    out = tmp_path / "set"
    command = [sys.executable, "-m", "cli.main", "preprocess", "images", URL, "--out", str(out)]
    command += ["--num-shards", "2", "--workers", "1", "--unit-size", "16KiB"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def kill(handler):
        units = (out / naming.WORK_DIR).glob("units/*.json")
        if any(units) if kill_at == "unit" else len(hub.store.requests) == kill_at:
            process.send_signal(signal.SIGKILL)
            process.wait()
        return False

    hub.store.faults.append(kill)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    hub.store.faults.clear()
    staged = len(list((out / naming.WORK_DIR).glob("units/*.json")))
    if moves:
        (corpus / "class0" / "000.jpg").unlink()
        second = hub.commit(NAME, corpus)
        local = build(ImageOptions, corpus, tmp_path / "local2").manifest
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads((out / naming.MANIFEST).read_text())["root_hash"] == local.root_hash
    if kill_at == "unit":
        assert staged
        moved = f"{URL} is at commit {second if moves else ''}, {first} then"
        assert (moved in ended.stdout + ended.stderr) == moves


def test_a_changed_file_is_no_mixture(web, tmp_path):
    def write(word):
        lines = (json.dumps({"text": f"{word} {text_of(n)}" * 40}) for n in range(1000))
        (web.folder / "docs.jsonl").write_text("\n".join(lines))

    write("first")
    url, out = f"{web.url}/docs.jsonl", tmp_path / "set"
    options = {"workers": 1, "unit_size": "1MiB", "split": "train=1"}
    changed = []

    def change(handler):
        if not changed and any((out / naming.WORK_DIR).glob("units/*.json")):
            changed.append(handler.path)
            write("other")
        return False

    web.faults.append(change)
    ledger = build(TextOptions, url, out, **options).manifest.ledger
    assert changed
    assert set(ledger.reasons) == {"changed-while-reading"}
    assert ledger.kept and ledger.quarantined
    words = {one["text"].split()[0] for one in reader.random_access(out, "train")}
    assert words == {b"first"} or words == {"first"}
    done = build(TextOptions, url, out, **options, overwrite=True)
    local = build(TextOptions, web.folder / "docs.jsonl", tmp_path / "local", **options).manifest
    assert done.manifest.root_hash == local.root_hash


@pytest.mark.parametrize("corpus", ["parquet"], indirect=True)
def test_a_token_is_used_and_never_shown(hub, corpus, tmp_path):
    _, folder = corpus
    hub.commit(NAME, folder)
    hub.gated.add(NAME)
    hub.commit("owner/hidden", folder)
    hub.private.add("owner/hidden")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    for url, variables in (
        (URL, {"HF_TOKEN": TOKEN}),
        ("hf://datasets/owner/hidden", {"HF_TOKEN_PATH": str(tmp_path / "token")}),
    ):
        out = tmp_path / url.rpartition("/")[2]
        command = [sys.executable, "-m", "cli.main", "preprocess", "text", url, "--out", str(out)]
        environment = {**os.environ, "HF_TOKEN_PATH": str(tmp_path / "none"), **variables}
        ended = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert ended.returncode == 0, ended.stderr
        written = [path.read_bytes() for path in out.rglob("*") if path.is_file()]
        everything = b"".join([*written, ended.stdout.encode(), ended.stderr.encode()])
        assert b"secretOf" not in everything  # of the token, and of signed addresses
    assert all("authorization" not in one.headers for one in hub.store.requests)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("owner/none", "does not exist, or is private.*HF_TOKEN"),
        ("owner/hidden", "does not exist, or is private.*HF_TOKEN"),
        ("owner/gated", "is gated. Accept its terms at .*/datasets/owner/gated, and set HF_TOKEN"),
        ("owner/name@v2", "has no branch, tag or commit 'v2'"),
        (f"owner/name@{'0' * 40}", "has no branch, tag or commit '0000"),
        ("owner/name/none", "/none does not exist. Check the path"),
        ("owner/name/*.tar", "matches no file"),
        ("owner/name/none/*.tar", "matches no file"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(hub, tmp_path, make_images, source, said):
    corpus = make_images(count=3)
    for name in ("name", "gated", "hidden"):
        hub.commit(f"owner/{name}", corpus)
    hub.gated.add("owner/gated")
    hub.private.add("owner/hidden")
    with pytest.raises(InputError, match=said):
        build(ImageOptions, f"hf://datasets/{source}", tmp_path / "set")
    assert not (tmp_path / "set").exists()


def test_a_wrong_token_is_said(hub, tmp_path, make_images, monkeypatch):
    hub.commit(NAME, make_images(count=3))
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(InputError, match=r"refuses the token for .*Set HF_TOKEN") as raised:
        build(ImageOptions, URL, tmp_path / "set")
    assert "hf_wrong" not in str(raised.value)


@pytest.mark.parametrize("place", ["https://host/a/set", "hf://datasets/owner/name/set"])
@pytest.mark.parametrize("option", ["out", "staging"])
def test_nothing_is_built_there(tmp_path, place, option):
    with pytest.raises(UsageError, match=f"--{option} {place} cannot be written: .* is only read"):
        ImageOptions(**{"sources": (str(tmp_path),), "out": str(tmp_path / "set"), option: place})
