"""What a worker of Dataflow is installed from: the wheel, and the image with it."""

from __future__ import annotations

import json
import re

import pytest

from tests.engines.sdk_image import DOCKERFILE, FILES, SdkImage, build_wheel

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """The image of samples/dataflow/Dockerfile, from no more files than it copies."""
    folder = tmp_path_factory.mktemp("image")
    context = folder / "context"
    (context / "samples").mkdir(parents=True)
    (context / "samples" / "dataflow").symlink_to(FILES)
    build_wheel(context / "dist")
    image = SdkImage(folder)
    image.build(DOCKERFILE, context)
    return image


@pytest.mark.parametrize(
    ("kind", "corpus", "further"),
    [
        ("images", "clothing", "--resize shorter:32"),
        ("text", "banking", "--label-column category --split folders --train-tokenizer bpe:300"),
    ],
)
def test_the_image_builds_the_set_that_the_checkout_builds(
    image, shardmill, samples, tmp_path, kind, corpus, further
):
    source = samples.parent / corpus
    command = f"shardmill preprocess {kind} {source} {further} --json --out"
    there = json.loads(image.run(f"{command} {tmp_path}/there").splitlines()[-1])
    here = shardmill(*f"{command} {tmp_path}/here".split()[1:])
    assert there["root_hash"] == json.loads(here.stdout)["root_hash"]
    assert (tmp_path / "there" / "report.html").exists()


def test_the_image_has_no_tensorflow(image):
    names = image.run("pip list --format=freeze").lower()
    assert re.search(r"^shardmill==", names, re.MULTILINE)
    assert not re.search(r"^(tensorflow|keras|torch)==", names, re.MULTILINE)


def test_the_image_has_the_version_of_beam_that_submits(repository):
    (version,) = re.findall(r"beam_python3\.11_sdk:(\S+)", DOCKERFILE.read_text())
    assert f"apache-beam=={version}\n" in (repository / "constraints.txt").read_text()
