"""Two builds into one place that start at the same moment."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.moto import moto
from tests.servers.test_builds import CLEAN, connected, root_hash, shardmill

pytestmark = pytest.mark.engine

STARTS = 6
REFUSED = re.compile(r"Another build( \(process \d+ on \S+\))? is writing to s3://")


def test_one_of_them_builds_and_the_other_says_why_not(corpus, tmp_path):
    with moto(tmp_path) as server, connected(server):
        hashes = set()
        for number in range(STARTS):
            out = f"{server.bucket}/set{number}"
            command = ["preprocess", "images", str(corpus), "--out", out, "--resize", "shorter:64"]
            both = [
                subprocess.Popen(
                    [sys.executable, "-m", "cli.main", *command],
                    env={
                        **CLEAN,
                        "PYTHONPATH": str(Path(__file__).parents[2]),
                        **server.environment,
                    },
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                for _ in range(2)
            ]
            said = [process.communicate(timeout=280)[1] for process in both]
            codes = [process.returncode for process in both]
            assert 0 in codes, said
            for code, text in zip(codes, said, strict=True):
                assert code == 0 or (code == 3 and REFUSED.search(" ".join(text.split()))), text
            hashes.add(root_hash(out))
            checked = shardmill(server.environment, "verify", out)
            assert checked.returncode == 0, checked.stderr
        assert len(hashes) == 1


@pytest.fixture(scope="module")
def corpus(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 images in 10 folders, by links."""
    folder = tmp_path_factory.mktemp("corpus")
    for label in sorted(path for path in samples.iterdir() if path.is_dir()):
        (folder / label.name).mkdir()
        for image in sorted(label.iterdir())[:3]:
            (folder / label.name / image.name).hardlink_to(image)
    return folder
