"""A data set that TensorFlow Datasets has prepared as a source, and the set that is made of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reader
from beam_jobs import ImageOptions, RecordOptions, preprocess
from shard_format import (
    Feature,
    InputError,
    Schema,
    encode_example,
    frame,
    load_manifest,
    verify,
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set with features of every kind, written by TFDS itself."""
    import tensorflow_datasets as tfds

    features = tfds.features

    class Everything(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self) -> Any:
            steps = {"action": features.Tensor(shape=(2,), dtype=np.float32), "done": np.bool_}
            return self.dataset_info_from_configs(
                features=features.FeaturesDict(
                    {
                        "image": features.Image(shape=(None, None, 3), encoding_format="png"),
                        "label": features.ClassLabel(names=["cat", "dog"]),
                        "objects": features.Sequence(
                            {
                                "bbox": features.BBoxFeature(),
                                "label": features.ClassLabel(names=["a"]),
                            }
                        ),
                        "steps": features.Sequence(steps),
                        "nested": features.Sequence(features.Sequence(np.int64)),
                        "words": features.Sequence(features.Text()),
                        "grid": features.Tensor(
                            shape=(None, None), dtype=np.float32, encoding="zlib"
                        ),
                        "exact": features.Tensor(shape=(3,), dtype=np.float64, encoding="bytes"),
                        "small": np.uint8,
                        "name": features.Text(),
                        "say": features.Translation(["de", "en"]),
                    }
                )
            )

        def _split_generators(self, dl_manager: Any) -> Any:
            return {"train": self._generate_examples(8), "test": self._generate_examples(4)}

        def _generate_examples(self, count: int) -> Iterator[Any]:
            for number in range(count):
                yield number, example(number, count)

    folder = tmp_path_factory.mktemp("tfds")
    builder = Everything(data_dir=folder)
    builder.download_and_prepare()
    return Path(builder.data_dir)


def example(number: int, count: int) -> dict[str, Any]:
    several = number % 3
    return {
        "image": np.full((4 + number, 5, 3), 10 * number + count, np.uint8),
        "label": number % 2,
        "objects": [{"bbox": np.array([0, 0.25, 0.5, 1.0]), "label": 0} for _ in range(several)],
        "steps": {
            "action": [[number, one] for one in range(several)],
            "done": [one == 0 for one in range(several)],
        },
        "nested": [list(range(one)) for one in range(several)],
        "words": [f"w{one}" for one in range(several)],
        "grid": np.full((1 + several, 2), number, np.float32),
        "exact": [number + 0.1, 0.2, 0.3],
        "small": number,
        "name": f"record {number} of {count}",
        "say": {"de": f"Zahl {number}", "en": f"number {number}"},
    }


def test_all_features_of_tfds_are_read(prepared: Path, tmp_path: Path) -> None:
    job = RecordOptions(f"tfds:{prepared}", str(tmp_path / "set"), workers=1, no_report=True)
    done = preprocess(job)
    assert not verify(tmp_path / "set")[1]
    assert {name: one.records for name, one in done.manifest.splits.items()} == {
        "train": 8,
        "test": 4,
    }
    assert done.manifest.schema["label"].class_names == ("cat", "dog")
    assert done.manifest.schema["objects/label"].class_names == ("a",)
    for split, count in (("train", 8), ("test", 4)):
        for record in reader.random_access(tmp_path / "set", split):
            number = record["small"]
            expected = example(number, count)
            assert np.array_equal(record["image"], expected["image"])
            assert record["label"] == number % 2 and record["name"] == expected["name"]
            assert record["objects"]["bbox"].shape == (number % 3, 4)
            assert record["objects"]["label"].tolist() == [0] * (number % 3)
            assert record["steps"]["action"].tolist() == expected["steps"]["action"]
            assert record["steps"]["done"].tolist() == expected["steps"]["done"]
            assert [one.tolist() for one in record["nested"]] == expected["nested"]
            assert record["words"] == expected["words"]
            assert np.array_equal(record["grid"], expected["grid"])
            assert record["exact"].tolist() == expected["exact"]
            assert record["say"] == expected["say"]


def test_tfds_reads_what_was_made_of_it(prepared: Path, tmp_path: Path) -> None:
    import tensorflow_datasets as tfds

    preprocess(RecordOptions(f"tfds:{prepared}", str(tmp_path / "set"), workers=1, no_report=True))
    before = tfds.builder_from_directory(prepared).as_dataset("test")
    after = tfds.builder_from_directory(tmp_path / "set").as_dataset("test")
    expected = {int(one["small"]): one for one in before}
    for one in after:
        source = expected[int(one["small"])]
        assert np.array_equal(one["image"], source["image"])
        assert one["nested"].to_list() == source["nested"].to_list()
        assert np.array_equal(one["grid"], source["grid"])
        assert np.array_equal(one["objects"]["bbox"], source["objects"]["bbox"])


def test_features_called_split_and_group_are_features(tmp_path: Path) -> None:
    numbers = {"tensor": {"shape": {}, "dtype": "int64"}}
    content = {"featuresDict": {"features": {name: numbers for name in ("split", "group")}}}
    (tmp_path / "features.json").write_text(json.dumps(content))
    features = [Feature("split", "int64"), Feature("group", "int64")]
    for split in ("train", "test"):
        values = [{"split": number, "group": 5} for number in range(4)]
        examples = [encode_example(Schema("", tuple(features)), one) for one in values]
        file = tmp_path / f"made-{split}.tfrecord-00000-of-00001"
        file.write_bytes(b"".join(map(frame, examples)))
    preprocess(
        RecordOptions(f"tfds:{tmp_path}", str(tmp_path / "set"), no_report=True, dedup="off")
    )
    for split in ("train", "test"):
        records = list(reader.random_access(tmp_path / "set", split=split))
        assert sorted(int(one["tfds_split"]) for one in records) == [0, 1, 2, 3]
        assert {int(one["tfds_group"]) for one in records} == {5}


def test_a_folder_that_tfds_has_not_prepared(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no features\.json of TensorFlow Datasets"):
        RecordOptions(f"tfds:{tmp_path}", str(tmp_path / "set"))


def test_a_set_is_a_source_with_its_labels_and_objects(repository: Path, tmp_path: Path) -> None:
    """Several labels of a record are a sequence of class labels."""
    photos = repository / "samples" / "objects"
    options = ImageOptions(
        (str(photos / "photos"),),
        str(tmp_path / "first"),
        annotations=str(photos / "instances.json"),
        no_report=True,
    )
    preprocess(options)
    again = RecordOptions(f"tfds:{tmp_path / 'first'}", str(tmp_path / "again"), no_report=True)
    preprocess(again)
    before, after = ({}, {})
    for seen, name in ((before, "first"), (after, "again")):
        schema = load_manifest(tmp_path / name).schema
        for split in ("train", "test"):
            for record in reader.random_access(tmp_path / name, split=split, decode=False):
                names = [schema["label"].class_names[one] for one in record["label"]]
                objects = record["objects"]
                own = [schema["objects/label"].class_names[one] for one in objects["label"]]
                seen[bytes(record["image"])] = (names, own, list(objects["segmentation"]))
    assert len(before) == 60 and before == after


@pytest.mark.parametrize(
    ("feature", "form"),
    [
        ({"tensor": {"shape": {"dimensions": ["3"]}, "dtype": "float32"}}, "float32[3]"),
        ({"image": {"shape": {"dimensions": ["-1", "-1", "1"]}}}, "image"),
    ],
)
def test_a_label_that_names_no_classes_is_refused(
    feature: dict[str, Any], form: str, tmp_path: Path
) -> None:
    content = {"featuresDict": {"features": {"label": feature}}}
    (tmp_path / "features.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=rf"'label' of .* is {re.escape(form)}, which names no"):
        RecordOptions(f"tfds:{tmp_path}", str(tmp_path / "set"))
