"""License, citation and card: what is given is kept, described, and changes no record."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_jobs import ImageOptions, append, preprocess
from beam_jobs.corpus.dataset_metadata import is_note
from beam_jobs.generations.compact import compact
from beam_jobs.options.papers import read_card, read_papers
from beam_jobs.quarantine import replay_options
from beam_jobs.repair import repair
from beam_jobs.report import write_report
from foundation import storage
from reader import convert
from shard_format import InputError, UsageError, load_build, load_manifest, naming, verify_set
from shard_format.croissant import croissant_text, describe_table
from shard_format.croissant_terms import described_set
from shard_format.dataset_card import CardSplit, card_page
from shard_format.papers import (
    CARD_FIELDS,
    TEXT,
    TEXTS,
    copied_facts,
    papers_of,
    papers_text,
    parse_papers,
)
from tests.fixtures.damage import files_of, job, make_corpus
from tests.fixtures.generations import Killed

CARD = """---
description: "A set: of noise."
creators: [{name: Ada, url: https://example.org/ada}, {name: Lab, type: organization}]
date_published: 2026-05-31
language: [en]
data_biases: [Only noise., Mostly grey.]
citation: '@misc{noise}'
---
# More

It *is* noise.
"""
RIGHTS = {"license": "CC-BY-4.0", "citation": "@misc{x}"}


@pytest.fixture
def card(tmp_path: Path) -> str:
    (tmp_path / "card.md").write_text(CARD)
    return str(tmp_path / "card.md")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return make_corpus("image", tmp_path / "corpus")


@pytest.fixture
def shard_set(corpus: Path, card: str, tmp_path: Path) -> Path:
    preprocess(job("image", corpus, tmp_path / "set", license="CC-BY-4.0", card=card))
    return tmp_path / "set"


@pytest.fixture
def append_more(tmp_path: Path, shard_set: Path):
    """Appends further records; keyword arguments are options."""

    def run(name: str, **options: object):
        source = tmp_path / name
        if not source.exists():
            make_corpus("image", source, 30 + len(name))
        return append(job("image", source, shard_set, append=True, id_prefix=name, **options))

    return run


def papers_in(directory: Path) -> dict:
    return papers_of(load_build(directory))


def described(directory: Path) -> dict:
    return json.loads((directory / naming.CROISSANT).read_bytes())


def front_matter(directory: Path) -> dict:
    return yaml.safe_load((directory / naming.CARD).read_text().split("---\n")[1])


def flip(place: Path, at: int, mask: int = 1) -> None:
    data = bytearray(place.read_bytes())
    data[at] ^= mask
    place.write_bytes(data)


def check(directory: Path, license: str = "CC-BY-4.0") -> None:
    """Checks that every file says the same of the papers, and that nothing is damaged."""
    verified = verify_set(directory)
    assert verified.damages == [] and verified.minor == []
    papers = papers_in(directory)
    assert papers["license"].endswith(license)
    assert papers["card"]["data_biases"] == ["Only noise.", "Mostly grey."]
    folders = [one.folder for one in load_manifest(directory).generations] or [""]
    for folder in folders:
        croissant = described(directory / folder)
        assert croissant["license"] == papers["license"]
        assert croissant["citeAs"] == papers["citation"]
        assert croissant["rai:dataBiases"] == papers["card"]["data_biases"]
        assert [one["name"] for one in croissant["creator"]] == ["Ada", "Lab"]
    assert front_matter(directory)["license"] == license.lower()
    page = (directory / naming.CARD).read_text()
    assert "It *is* noise." in page and load_manifest(directory).root_hash in page


@pytest.mark.parametrize("kind", ["image", "text"])
def test_no_record_depends_on_them(kind: str, card: str, tmp_path: Path) -> None:
    source = make_corpus(kind, tmp_path / "corpus")
    with_them = preprocess(job(kind, source, tmp_path / "set", card=card, **RIGHTS)).manifest
    without = preprocess(job(kind, source, tmp_path / "plain")).manifest
    assert with_them.root_hash == without.root_hash
    check(tmp_path / "set")
    plain = described(tmp_path / "plain")
    assert not {"license", "citeAs", "creator"} & plain.keys()
    assert plain["prov:wasDerivedFrom"] == [{"@type": "prov:Entity", "prov:label": "corpus"}]
    for name in (naming.CARD, naming.CROISSANT):
        for directory in ("set", "plain"):
            # Whose machine it was is nobody's business.
            assert str(tmp_path) not in (tmp_path / directory / name).read_text()


def test_two_builds_say_the_same(shard_set: Path, corpus: Path, card: str, tmp_path: Path) -> None:
    again = job("image", corpus, tmp_path / "again", license="CC-BY-4.0", card=card, workers=2)
    preprocess(again)
    for name in (naming.CARD, naming.CROISSANT):
        assert (tmp_path / "again" / name).read_bytes() == (shard_set / name).read_bytes()


def test_the_same_command_replaces_them_alone(shard_set: Path, corpus: Path) -> None:
    before = {name: os.stat(shard_set / name) for name in files_of(shard_set)}
    for table in (shard_set / "index").glob("*.parquet"):
        flip(table, 100)  # whoever reads a record, an index or a table, sees it
    assert preprocess(job("image", corpus, shard_set, license="MIT")).already_built
    changed = {
        name
        for name, stat in before.items()
        if os.stat(shard_set / name).st_ino != stat.st_ino  # renamed to its place
    }
    assert changed == {naming.BUILD, naming.CROISSANT, naming.CARD}
    for table in (shard_set / "index").glob("*.parquet"):
        flip(table, 100)
    check(shard_set, "MIT")
    preprocess(job("image", corpus, shard_set, license="CC0-1.0", no_report=True))
    check(shard_set, "CC0-1.0")
    preprocess(job("image", corpus, shard_set, license="MIT", no_report=True))
    before = {name: os.stat(shard_set / name) for name in files_of(shard_set)}
    preprocess(job("image", corpus, shard_set))
    assert {name: os.stat(shard_set / name) for name in before} == before
    check(shard_set, "MIT")


def test_overwriting_with_the_same_set_replaces_them(shard_set: Path, corpus: Path) -> None:
    notes: list[str] = []
    options = job("image", corpus, shard_set, license="MIT", overwrite=True)
    assert preprocess(options, on_note=notes.append).already_built
    assert any("license" in note for note in notes)
    check(shard_set, "MIT")
    assert sorted(path.name for path in shard_set.parent.iterdir()) == ["card.md", "corpus", "set"]


def test_a_set_in_a_bucket(memory, corpus: Path, card: str) -> None:
    out = storage.Url("memory://bucket/set")
    preprocess(job("image", corpus, out, card=card, license="CC-BY-4.0"))
    report = storage.read_bytes(out / naming.REPORT)
    assert preprocess(job("image", corpus, out, license="MIT")).already_built
    verified = verify_set(out)
    assert verified.damages == [] and verified.minor == []
    assert papers_of(load_build(out))["license"].endswith("MIT")
    assert b"license: mit" in storage.read_bytes(out / naming.CARD)
    assert storage.read_bytes(out / naming.REPORT) == report
    options = job("image", corpus, out, seed=3, card=card, license="MIT", overwrite=True)
    assert not preprocess(options).already_built
    root_hash = load_manifest(out).root_hash.encode()
    assert root_hash in storage.read_bytes(out / naming.CARD)
    assert verify_set(out).damages == [] and verify_set(out).minor == []


def test_a_build_that_lost_a_file_keeps_them(shard_set: Path, corpus: Path) -> None:
    next(shard_set.glob("*.tfrecord-*")).unlink()
    assert not preprocess(job("image", corpus, shard_set)).already_built
    check(shard_set)


def test_append_and_compact_keep_them(shard_set: Path, append_more) -> None:
    append_more("more")
    check(shard_set)
    assert append_more("further", license="MIT").number == 2
    check(shard_set, "MIT")
    assert append_more("further", license="CC0-1.0").already_built
    check(shard_set, "CC0-1.0")
    compact(shard_set)
    check(shard_set, "CC0-1.0")
    sources = [one["prov:label"] for one in described(shard_set)["prov:wasDerivedFrom"]]
    assert sources == ["corpus", "more", "further"]


def test_a_replay_keeps_them(shard_set: Path) -> None:
    options = replay_options(shard_set, None, (), {})
    assert parse_papers(options.papers) == papers_in(shard_set) != {}
    # Where the files of the options were is not stored.
    assert (options.license, options.citation, options.card) == (None, None, None)
    assert "card.md" not in (shard_set / naming.BUILD).read_text()


@pytest.mark.parametrize("part", range(8))
def test_a_flipped_bit_of_croissant_is_found_and_repaired(shard_set: Path, part: int) -> None:
    place = shard_set / naming.CROISSANT
    whole = place.read_bytes()
    step = max(1, len(whole) // 160)
    for at in range(part * step, len(whole), 8 * step):
        flip(place, at, 1 << (at % 8))
        assert naming.CROISSANT in {one.file for one in verify_set(shard_set).damages}
        place.write_bytes(whole)
    flip(place, whole.index(b"CC-BY-4.0"))
    assert naming.CROISSANT in repair(shard_set).repaired
    assert place.read_bytes() == whole


@pytest.mark.parametrize("number", [0, 1])
def test_repair_of_a_lost_build_keeps_them(
    shard_set: Path, corpus: Path, append_more, number: int
) -> None:
    if number:
        append_more("more")
        corpus = corpus.with_name("more")
    folder = shard_set / naming.generation_folder(number) if number else shard_set
    text = (folder / naming.BUILD).read_bytes()
    # The license of the damaged file must not be taken.
    flip(folder / naming.BUILD, text.index(b"CC-BY-4.0"))
    damages = {one.file for one in verify_set(shard_set).damages}
    assert damages == {str((folder / naming.BUILD).relative_to(shard_set))}
    assert repair(shard_set).left == []
    check(shard_set)
    (folder / naming.BUILD).unlink()
    assert repair(shard_set, [str(corpus)]).left == []
    check(shard_set)


def test_repair_says_that_they_are_lost(shard_set: Path, corpus: Path) -> None:
    (shard_set / naming.BUILD).unlink()
    (shard_set / naming.CROISSANT).unlink()
    notes: list[str] = []
    assert repair(shard_set, [str(corpus)], on_note=notes.append).left == []
    assert any("Give them again" in note for note in notes)
    assert papers_in(shard_set) == {} and "license" not in described(shard_set)


def test_a_set_of_an_earlier_version_passes(shard_set: Path, corpus: Path) -> None:
    manifest, place = load_manifest(shard_set), shard_set / naming.CROISSANT
    tables = {
        split: [describe_table(shard_set / file) for file in naming.table_files(split)]
        for split in manifest.splits
    }
    earlier = croissant_text(manifest, tables)
    assert "croissant/1.0" in earlier and "license" not in earlier
    place.write_text(earlier)
    assert verify_set(shard_set).damages == []
    for at in range(0, len(earlier), max(1, len(earlier) // 40)):
        flip(place, at)
        assert naming.CROISSANT in {one.file for one in verify_set(shard_set).damages}
        place.write_text(earlier)
    preprocess(job("image", corpus, shard_set, license="MIT"))
    check(shard_set, "MIT")


@pytest.mark.parametrize("last", range(3))
def test_a_killed_change_is_completed(
    shard_set: Path, corpus: Path, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, names = os.replace, [naming.BUILD, naming.CROISSANT, naming.CARD]

    def die(source, final, **options) -> None:
        if Path(final).name == names[last]:
            raise Killed
        replace(source, final, **options)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(os, "replace", die)
        preprocess(job("image", corpus, shard_set, license="MIT"))
    assert {one.file for one in verify_set(shard_set).damages} <= {naming.CROISSANT}
    copy = shard_set.with_name("repaired")
    shutil.copytree(shard_set, copy)
    assert repair(copy).left == []
    preprocess(job("image", corpus, shard_set, license="MIT"))
    check(shard_set, "MIT")


@pytest.mark.parametrize("edit", ["by hand", "all of it", "a bit"])
def test_an_edited_readme_stays(shard_set: Path, corpus: Path, append_more, edit: str) -> None:
    place = shard_set / naming.CARD
    if edit == "a bit":
        flip(place, 40)
    else:
        page = place.read_text().replace("A set: of noise.", "Ours.")
        place.write_text(page if edit == "by hand" else "# Ours\n")
    edited = place.read_bytes()
    preprocess(job("image", corpus, shard_set, license="MIT"))
    append_more("more")
    compact(shard_set)
    write_report(shard_set)
    repair(shard_set, delete_extra=True)
    assert place.read_bytes() == edited
    verified = verify_set(shard_set)
    (minor,) = verified.minor
    assert verified.damages == [] and "was changed after it was written" in minor.problem
    with pytest.raises(InputError, match=r"README\.md"):
        preprocess(job("image", corpus, shard_set, seed=5, overwrite=True))
    assert place.read_bytes() == edited
    place.unlink()
    assert "shardmill report" in verify_set(shard_set).minor[0].problem
    assert repair(shard_set).repaired == [naming.CARD]
    check(shard_set, "MIT")


def test_a_readme_is_replaced_with_its_set(shard_set: Path, corpus: Path, card: str) -> None:
    preprocess(job("image", corpus, shard_set, seed=5, overwrite=True, card=card, license="MIT"))
    check(shard_set, "MIT")


def test_a_conversion_has_a_card_for_the_hub(shard_set: Path, tmp_path: Path) -> None:
    for form in ("parquet", "files"):
        done = convert(shard_set, form, tmp_path / form)
        front = front_matter(tmp_path / form)
        assert front["license"] == "cc-by-4.0" and front["language"] == ["en"]
        page = (tmp_path / form / naming.CARD).read_text()
        assert "It *is* noise." in page and str(tmp_path) not in page
        assert is_note(os.fsencode(tmp_path / form / naming.CARD))
        if form == "files":
            assert "configs" not in front
            continue
        (config,) = front["configs"]
        patterns = {one["split"]: one["path"] for one in config["data_files"]}
        assert patterns.keys() == done.splits.keys()
        for split, pattern in patterns.items():
            assert len(list((tmp_path / form).glob(pattern))) == done.splits[split]["files"]
    assert not is_note(os.fsencode(tmp_path / "corpus" / naming.CARD))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("descripton: x", ["'descripton'", "description", "data_biases", "license"]),
        ("description: [a, b]", ["'description'", "['a', 'b']", "text"]),
        ("description: ''", ["'description'", "empty"]),
        ("version: 1.0", ["'version'", "1.0", "quotes"]),
        ("version: '1'", ["'version'", "1.0.0"]),
        ("language: no", ["'language'", "False", "quotes"]),
        ("keywords: [a, 3]", ["'keywords'", "3"]),
        ("date_published: soon", ["'date_published'", "'soon'", "2026-05-31"]),
        ("url: example", ["'url'", "'example'", "https://"]),
        ("license: ours alone", ["'license'", "SPDX"]),
        ("creators: [{nme: x}]", ["'creators'", "name"]),
        ("creators: [{name: x, orcid: y}]", ["'orcid'", "email"]),
        ("creators: [{name: x, type: robot}]", ["'robot'", "person, organization"]),
        ("languages: [en]\nlanguage: [de]", ["'language'", "twice"]),
        ("a: b: c", ["not YAML", "line 1"]),
        ("- a", ["no fields"]),
        ("'\\ud800'", ["no fields"]),
        ('description: "\\ud800"', ["not Unicode"]),
        ("", ["empty"]),
    ],
)
def test_a_wrong_card_is_refused(text: str, parts: list[str], tmp_path: Path) -> None:
    place = tmp_path / "card.yaml"
    place.write_text(text)
    with pytest.raises(UsageError) as error:
        read_card(str(place))
    for part in (*parts, str(place)):
        assert part in str(error.value)
    if text:
        place.with_suffix(".md").write_text(f"---\n{text}\n---\nBody")
        with pytest.raises(UsageError):
            read_card(str(place.with_suffix(".md")))


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--license", "CC BY"), "'CC BY'"),
        (("--card", "missing.md"), "missing.md cannot be read"),
        (("--card", "bytes.md"), "not UTF-8 at byte 1"),
    ],
)
def test_a_wrong_option_is_refused(
    arguments: tuple[str, ...], part: str, corpus: Path, shardmill
) -> None:
    (corpus.parent / "bytes.md").write_bytes(b"a\xff")
    option, value = arguments
    value = str(corpus.parent / value) if option == "--card" else value
    out = corpus.parent / "set"
    done = shardmill("preprocess", "images", corpus, "--out", out, option, value)
    assert done.returncode == 2 and part in done.stderr and "Traceback" not in done.stderr
    assert not out.exists()


@pytest.mark.parametrize("text", ["LicenseRef-Ours", "http:/x", "MIT OR Apache-2.0", "", "é"])
def test_a_wrong_license_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(repr(text))):
        ImageOptions(("a",), "b", license=text)


def test_forms_of_cards(tmp_path: Path) -> None:
    fields = {"description": "x: y", "data_biases": "one", "license": "https://example.org/l"}
    (tmp_path / "card.json").write_text(json.dumps(fields))
    (tmp_path / "card.yml").write_text(yaml.safe_dump(fields))
    text = f"---\r\n{yaml.safe_dump(fields)}---\r\nBody\r\n---\r\n"
    (tmp_path / "card.md").write_bytes(b"\xef\xbb\xbf" + text.encode())
    (tmp_path / "body.md").write_text("# Only\n")
    expected = {"description": "x: y", "data_biases": ["one"]}
    for name in ("card.json", "card.yml"):
        papers = read_card(str(tmp_path / name))
        assert papers == {"license": "https://example.org/l", "card": expected}
    assert read_card(str(tmp_path / "card.md"))["card"] == {**expected, "body": "Body\n---"}
    assert read_card(str(tmp_path / "body.md")) == {"card": {"body": "# Only"}}
    (tmp_path / "cite.bib").write_text("@misc{x}\n")
    for citation in (str(tmp_path / "cite.bib"), "@misc{x}"):
        assert read_papers("MIT", citation, None) == {
            "license": "https://spdx.org/licenses/MIT",
            "citation": "@misc{x}",
        }
    for citation in ("https://doi.org/10.1/x", "Ada. Noise. 2026", "@misc{x\n}", "s 1: a.txt b"):
        assert read_papers(None, citation, None) == {"citation": citation}
    for citation in (str(tmp_path / "missing.bib"), " "):
        with pytest.raises(UsageError, match="--citation"):
            read_papers(None, citation, None)
    assert read_papers("MIT", None, str(tmp_path / "card.md"))["license"].endswith("/MIT")


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: text == text.strip()
)
papers = st.fixed_dictionaries(
    {},
    optional={
        "license": texts.map("https://example.org/{}".format),
        "citation": texts,
        "card": st.fixed_dictionaries(
            {},
            optional={
                name: {TEXT: texts, TEXTS: st.lists(texts, min_size=1)}[field.kind]
                for name, field in CARD_FIELDS.items()
                if field.kind in (TEXT, TEXTS)
            }
            | {"body": texts},
        ),
    },
)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("any")
    corpus = make_corpus("image", folder / "corpus")
    options = ImageOptions((str(corpus),), str(folder / "set"), no_report=True, workers=1)
    return preprocess(options).manifest


@given(given_papers=papers)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_text_survives(given_papers, manifest) -> None:
    build = {"options": {"papers": papers_text(given_papers)}}
    card = given_papers.get("card", {})
    page = card_page(manifest, build, [CardSplit("train", 3, 1, 9)], "pass")
    assert page.encode().decode() == page
    front = yaml.safe_load(page.split("\n---\n")[0].removeprefix("---\n"))
    assert front["pretty_name"] == card.get("title", manifest.name)
    assert front.get("language", []) == card.get("languages", [])
    assert front["tags"] == list(dict.fromkeys([*card.get("keywords", []), "shardmill"]))
    assert front.get("license_link") == given_papers.get("license")
    for text in (given_papers.get("citation"), card.get("body"), card.get("data_social_impact")):
        assert text is None or text in page
    croissant = json.loads(json.dumps(described_set(manifest, build)))
    for name, field in CARD_FIELDS.items():
        if name in card and field.term:
            value, known = croissant[field.term], card[name]
            assert value[: len(known)] == known
    assert copied_facts(json.dumps(croissant).encode()) == (given_papers, "")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*CARD_FIELDS, "name", "url"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    hostile=st.dictionaries(st.sampled_from(["license", "citation", "card", "x"]), values) | values,
    packages=values,
)
def test_any_build_of_others_is_described(hostile, packages, manifest) -> None:
    """A set may come from anyone: papers that no command wrote are none."""
    options = {"papers": json.dumps(hostile)}
    for build in ({"options": options, "packages": packages}, {"options": {"papers": hostile}}):
        page = card_page(manifest, build, [], "pass")
        yaml.safe_load(page.split("\n---\n")[0].removeprefix("---\n"))
        json.dumps(described_set(manifest, build))
    copied_facts(json.dumps({"subjectOf": hostile}).encode())
    copied_facts(json.dumps(hostile).encode())


@given(
    fields=st.dictionaries(st.sampled_from(["description", "title"]), texts, min_size=1), body=texts
)
def test_any_card_is_read(fields, body, tmp_path_factory) -> None:
    place = tmp_path_factory.mktemp("card") / "card.md"
    dumped = yaml.safe_dump(fields, allow_unicode=True)
    place.write_text(f"---\n{dumped}---\n{body}", newline="")
    read = read_card(str(place))["card"]
    assert read.pop("body") == body.replace("\r\n", "\n").strip()
    assert read == fields
