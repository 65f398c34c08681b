"""A name that no file system has: every command says so, without a traceback."""

from __future__ import annotations

import pytest

NAME = "n" * 300


@pytest.mark.parametrize(
    "arguments",
    [
        "preprocess images {source} --out {name}",
        "preprocess images {source} --out {name}/set",
        "preprocess images {source} --out {name} --append",
        "preprocess images {source} --out {name} --overwrite",
        "preprocess images {source} --out {name} --dry-run",
        "preprocess images {source} --out {set}2 --staging {name}",
        "preprocess images {source} --out {set}2 --labels {name}",
        "preprocess images {name} --out {set}2",
        "verify {name}",
        "repair {name}",
        "repair {set} {name}",
        "compact {set} --remove {name}",
        "quarantine replay {set} {name}",
        "report {set} --out {name}",
        "predict {name} file.jpg",
        "export {name}",
    ],
)
def test_a_name_of_300_bytes(arguments, make_images, build, shardmill, tmp_path):
    source = make_images(4, 2)
    build(source)
    words = arguments.format(source=source, set=tmp_path / "set", name=tmp_path / NAME).split()
    done = shardmill(*words)
    assert done.returncode in (2, 3), done.stderr
    assert NAME in done.stderr.replace("\n", "") and "Traceback" not in done.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {source.name, "set", "set2"}
