"""Arguments that begin like a URL: no command makes a folder named "s3:" of them."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("preprocess images {source} --out s3:/bucket/set", "Write s3://bucket/set."),
        ("preprocess images {source} --out s3://", "s3:// names no bucket"),
        ("preprocess images {source} --out {set}2 --staging gs:/bucket", "Write gs://bucket."),
        ("preprocess images s3:/bucket/images --out {set}2", "Write s3://bucket/images."),
        ("preprocess images {source} --out {set}2 --labels s3:/b/t.csv", "Write s3://b/t.csv."),
        ("verify s3:/bucket/set", "Write s3://bucket/set."),
        ("read s3://", "s3:// names no bucket"),
        ("compact s3:/bucket/set", "Write s3://bucket/set."),
        ("repair {set} s3:/bucket/images", "Write s3://bucket/images."),
        ("report {set} --out s3:/bucket/report.html", "Write s3://bucket/report.html."),
        ("train {set} --run-dir s3:/bucket/run", "Write s3://bucket/run."),
        ("train {set} --run-dir hf://datasets/a/b/run", "hf:// is only read"),
        ("train {set} --weights s3:/bucket/model.keras", "can only be a local file or folder"),
        ("read {set} --batch-size 1 --cache-dir s3://bucket/cache", "s3:/bucket/cache is a URL"),
        ("quarantine export {set} --to s3://bucket/files", "s3://bucket/files is a URL"),
        ("export run --out s3:/bucket/model", "s3:/bucket/model is a URL, or begins like one"),
    ],
)
def test_it_is_wrong_usage(arguments, message, make_images, build, shardmill, tmp_path):
    source = make_images(4, 2)
    build(source)
    before = {path.name for path in tmp_path.iterdir()}
    words = arguments.format(source=source, set=tmp_path / "set").split()
    done = shardmill(*words)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert message in " ".join(done.stderr.split()) and "Traceback" not in done.stderr
    assert {path.name for path in tmp_path.iterdir()} - {"runs"} == before
