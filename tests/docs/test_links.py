"""Documents stay true: links lead somewhere, tables name real files."""

from __future__ import annotations

import re

import pytest

DOCUMENTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/architecture.md"]
DOCUMENTS += [
    "docs/dataflow.md",
    "docs/decisions/0018-dataflow.md",
    "docs/exit-codes.md",
    "docs/options.md",
    "docs/python.md",
    "docs/reading.md",
    "docs/serve.md",
    "docs/transforms.md",
    "shard_format/FORMAT.md",
    "benchmarks/README.md",
    "samples/SOURCES.md",
]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document, repository):
    path = repository / document
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), target


def test_the_table_of_places_is_true(repository):
    text = (repository / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"`([A-Z_]+)` in `([a-z_/]+/__init__\.py)`", text)
    assert len(rows) >= 4
    for name, module in rows:
        assert re.search(rf"^{name}\b", (repository / module).read_text(), re.MULTILINE), module


def test_no_document_names_this_machine(repository):
    results = (repository / "benchmarks" / "results").glob("*.json")
    for document in (*(repository / name for name in DOCUMENTS), *results):
        assert str(repository) not in document.read_text(encoding="utf-8"), document
