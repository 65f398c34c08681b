"""The rules of `make lint` for words find what they are for, and only that."""

from __future__ import annotations

import pytest

from tests.house import words


@pytest.fixture
def breaks(tmp_path, monkeypatch):
    """Returns the (rule, line) of every break in files of a repository with one package, "ours"."""
    monkeypatch.setattr(words, "REPOSITORY", tmp_path)

    def find(**sources: str) -> list[tuple[str, int]]:
        files = []
        for name, source in sources.items():
            path = tmp_path / "ours" / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(source)
            files.append(path)
        return [(one.rule, one.line) for one in words.breaks_in(files, ["ours"])]

    return find


def test_a_description_that_begins_with_of(breaks):
    docstring = "One.\n\n    Attributes:\n        b: Of a set.\n        c: Name.\n    "
    source = f'class A:\n    """{docstring}"""\n'
    assert breaks(one=source) == [("of-descriptions", 5)]


def test_a_docstring_that_begins_with_returns_if(breaks):
    source = 'def f():\n    """Returns if so."""\ndef g():\n    """Returns True if so."""\n'
    assert breaks(one=source) == [("returns-if", 2)]


def test_a_docstring_that_refers_to_another(breaks):
    source = '"""See all."""\nclass A:\n    def f(self):\n        """See B."""\n'
    assert breaks(one=source) == [("see-docstrings", 4)]


def test_a_variable_named_found(breaks):
    source = "found = 1\nfor found in ():\n    print(found)\nsize = found\n"
    assert breaks(one=source) == [("found-names", 1), ("found-names", 2)]


def test_a_class_name_that_two_modules_have(breaks):
    assert breaks(one="class A: ...\n", two="class A: ...\nclass B: ...\n") == [
        ("twin-classes", 1),
        ("twin-classes", 1),
    ]
