"""Documents stay true: links lead somewhere, tables name real files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
DOCUMENTS += [str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "docs").rglob("*.md")]
DOCUMENTS += [
    "shard_format/FORMAT.md",
    "benchmarks/README.md",
    "samples/SOURCES.md",
    "samples/kubernetes/README.md",
]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document, repository):
    path = repository / document
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if "://" not in target:
            assert (path.parent / target).exists(), target


def test_every_decision_is_listed(repository):
    folder = repository / "docs" / "decisions"
    listed = re.findall(r"\]\((.+\.md)\)", (folder / "index.md").read_text(encoding="utf-8"))
    assert listed == sorted(path.name for path in folder.glob("0*.md"))


def test_the_table_of_places_is_true(repository):
    text = (repository / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"`([A-Z_]+)` in `([a-z_/]+/__init__\.py)`", text)
    assert len(rows) >= 4
    for name, module in rows:
        assert re.search(rf"^{name}\b", (repository / module).read_text(), re.MULTILINE), module


def test_no_document_names_this_machine(repository):
    results = (repository / "benchmarks" / "results").glob("*.json")
    for document in (*(repository / name for name in DOCUMENTS), *results):
        assert str(repository) not in document.read_text(encoding="utf-8"), document
