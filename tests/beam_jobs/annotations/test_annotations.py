"""`--annotations`: boxes, segmentations and masks of every form, moved as the images are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO

import reader
from beam_jobs.generations.append import append
from beam_jobs.options import ImageOptions, RecordOptions
from beam_jobs.run import preprocess
from shard_format import InputError, UsageError
from tests.beam_jobs.annotations.annotated import (
    OBJECTS,
    SIZES,
    build,
    coco_of,
    counts_of,
    photo,
    quarantined,
    records_of,
    run_lengths,
)


def test_what_is_not_resized_is_as_pycocotools_has_it(photos: Path, coco: Path) -> None:
    done = build(photos, coco)
    assert done.manifest.ledger.kept == 4
    source, records = COCO(str(coco)), records_of(photos)
    names = done.manifest.schema["objects/label"].class_names
    assert names == ("dog", "cat", "bird")  # in the order of the file
    for image in source.loadImgs(source.getImgIds()):
        record = records[image["file_name"]]
        width, height = image["width"], image["height"]
        assert record["image"].shape == (height, width, 3)
        objects, expected = record["objects"], source.loadAnns(source.getAnnIds(image["id"]))
        assert len(objects["label"]) == len(expected)
        for place, one in enumerate(expected):
            ymin, xmin, ymax, xmax = objects["bbox"][place].astype(np.float64) * (
                *(height, width, height, width),
            )
            box = np.float32([xmin, ymin, xmax - xmin, ymax - ymin])
            assert np.allclose(box, one["bbox"], atol=1e-5)
            assert objects["area"][place] == np.float32(one["area"])
            assert bool(objects["is_crowd"][place]) == bool(one["iscrowd"])
            assert names[objects["label"][place]] == source.loadCats(one["category_id"])[0]["name"]
            counts = objects["segmentation"][place]
            if "segmentation" in one:
                assert counts == counts_of(source.annToRLE(one))  # to the bit
            else:
                assert counts == ""
    labels = [done.manifest.schema["label"].class_names[one] for one in records["a/1.jpg"]["label"]]
    assert sorted(labels) == ["cat", "dog"]  # an image has the classes of its objects
    assert records["b/4.jpg"]["label"].tolist() == []


@pytest.mark.parametrize("resize", ["shorter:20", "fit:30x30", "crop:24x24", "pad:32x32"])
def test_what_is_resized_is_where_the_pixels_are(photos: Path, coco: Path, resize: str) -> None:
    """Referee: a white box in a black image, resized by the same program."""
    boxes: dict[str, list[float]] = {}
    objects = []
    for number, (name, (width, height)) in enumerate(SIZES.items(), 100):
        left, top = width // 4, height // 3
        boxes[name] = [left, top, width // 2, height // 3]
        pixels = np.zeros((height, width, 3), np.uint8)
        pixels[top : top + height // 3, left : left + width // 2] = 255
        (photos / name).write_bytes(cv2.imencode(".png", pixels)[1].tobytes())
        mask = run_lengths((pixels[..., 0] > 0).astype(np.uint8))
        objects.append(
            {"image_id": number, "category_id": 3, "bbox": boxes[name], "segmentation": mask}
        )
    coco.write_text(json.dumps(coco_of(objects)))
    build(photos, coco, resize=resize, resize_filter="area", encoding="png")
    for record in records_of(photos).values():
        height, width = record["image"].shape[:2]
        bright = record["image"][..., 0] > 127
        rows, columns = np.flatnonzero(bright.any(axis=1)), np.flatnonzero(bright.any(axis=0))
        expected = [rows[0], columns[0], rows[-1] + 1, columns[-1] + 1]
        box = record["objects"]["bbox"][0] * (height, width, height, width)
        assert np.abs(box - expected).max() <= 0.5 + 1e-4
        coded = {"size": [height, width], "counts": record["objects"]["segmentation"][0].encode()}
        mask = coco_mask.decode(coded).astype(bool)
        assert (mask ^ bright).sum() <= 2 * (len(rows) + len(columns))  # within half a pixel
        assert abs(record["objects"]["area"][0] - bright.sum()) <= 2 * (len(rows) + len(columns))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("of_upright", [False, True])
def test_objects_are_turned_with_their_image(
    photos: Path, coco: Path, orientation: int, of_upright: bool
) -> None:
    width, height = SIZES["a/1.jpg"]
    (photos / "a/1.jpg").write_bytes(photo((width, height), 0, orientation))
    mask = np.zeros((height, width), np.uint8)
    mask[5:12, 3:33] = 1
    upright = np.asarray(mask)
    upright = upright.swapaxes(0, 1) if orientation > 4 else upright
    upright = upright[:, ::-1] if orientation in (2, 3, 6, 7) else upright
    upright = upright[::-1] if orientation in (3, 4, 7, 8) else upright
    if of_upright and orientation < 5:
        pytest.skip("the size does not tell")
    given = upright if of_upright else mask
    rows, columns = np.flatnonzero(given.any(axis=1)), np.flatnonzero(given.any(axis=0))
    box = [int(columns[0]), int(rows[0]), len(columns), len(rows)]
    content = coco_of(
        [{"image_id": 100, "category_id": 3, "bbox": box, "segmentation": run_lengths(given)}]
    )
    content["images"][0] |= {"width": given.shape[1], "height": given.shape[0]}
    coco.write_text(json.dumps(content))
    build(photos, coco)
    record = records_of(photos)["a/1.jpg"]
    assert record["image"].shape[:2] == upright.shape
    coded = {"size": list(upright.shape), "counts": record["objects"]["segmentation"][0].encode()}
    assert np.array_equal(coco_mask.decode(coded), upright)
    rows, columns = np.flatnonzero(upright.any(axis=1)), np.flatnonzero(upright.any(axis=0))
    expected = [rows[0], columns[0], rows[-1] + 1, columns[-1] + 1]
    assert np.allclose(record["objects"]["bbox"][0] * (*upright.shape, *upright.shape), expected)


def write_voc(folder: Path) -> Path:
    for name, (width, height) in SIZES.items():
        file = folder / name.replace(".jpg", ".xml")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            f"<annotation><filename>{name}</filename><size><width>{width}</width>"
            f"<height>{height}</height></size><object><name>dog</name><bndbox><xmin>3</xmin>"
            "<ymin>5</ymin><xmax>12</xmax><ymax>16</ymax></bndbox></object></annotation>"
        )
    return folder


def write_yolo(folder: Path) -> Path:
    folder.mkdir()
    (folder / "data.yaml").write_text("path: x\nnames:\n  0: cat\n  1: dog\n")
    for name, (width, height) in SIZES.items():
        file = folder / "labels" / name.replace(".jpg", ".txt")
        file.parent.mkdir(parents=True, exist_ok=True)
        values = (7 / width, 10 / height, 10 / width, 12 / height)
        file.write_text("1 " + " ".join(map(repr, values)) + "\n")
    return folder / "labels"


def write_csv(folder: Path) -> Path:
    rows = [f"{name},dog,2,4,12,16" for name in SIZES]
    folder.mkdir()
    file = folder / "boxes.csv"
    file.write_text("\n".join(["filename,class,xmin,ymin,xmax,ymax", *rows]) + "\n")
    return file


def write_open_images(folder: Path) -> Path:
    rows = []
    for name, (width, height) in SIZES.items():
        sides = (2 / width, 12 / width, 4 / height, 16 / height)
        stem = name.partition("/")[2].removesuffix(".jpg")
        rows.append(f"{stem},xclick,dog,1,{','.join(map(repr, sides))},0,0,1,0,0")
    folder.mkdir()
    file = folder / "boxes.csv"
    header = (
        "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,"
        "IsDepiction,IsInside"
    )
    file.write_text("\n".join([header, *rows]) + "\n")
    return file


@pytest.mark.parametrize("write", [write_voc, write_yolo, write_csv, write_open_images])
def test_every_form_gives_the_same_boxes(
    photos: Path, tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    done = build(photos, write(tmp_path / "annotations"))
    assert done.manifest.ledger.kept == 4
    names = done.manifest.schema["objects/label"].class_names
    for record in records_of(photos).values():
        height, width = record["image"].shape[:2]
        box = record["objects"]["bbox"] * (height, width, height, width)
        assert np.allclose(box, [[4, 2, 16, 12]], atol=1e-4)
        assert names[record["objects"]["label"][0]] == "dog"
        assert record["objects"]["area"][0] == pytest.approx(120, rel=1e-5)


def test_files_of_annotations_may_be_links(photos: Path, tmp_path: Path) -> None:
    labels, linked = write_yolo(tmp_path / "annotations"), tmp_path / "linked"
    for file in labels.rglob("*.txt"):
        link = linked / file.relative_to(labels)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(file)
    (linked / "data.yaml").symlink_to(labels.parent / "data.yaml")
    assert build(photos, linked).manifest.ledger.kept == 4


def test_batches_have_objects(photos: Path, coco: Path) -> None:
    build(photos, coco, resize="crop:32x32", enlarge=True)
    stream = reader.load(
        photos.parent / "set", batch_size=4, features=("objects", "id"), epochs=1, shuffle="off"
    )
    ((inputs, labels),) = list(stream)
    assert labels.shape == (4, 3) and inputs["image"].shape == (4, 32, 32, 3)
    assert set(inputs["objects"]) == {"bbox", "label", "area", "is_crowd", "segmentation"}
    counts = [len(one) for one in inputs["objects"]["bbox"]]
    assert counts == [len(one) for one in inputs["objects"]["label"]]
    assert sum(counts) == sum(map(len, inputs["objects"]["segmentation"]))
    (tensors, _), *_ = list(stream.dataset)
    assert isinstance(tensors["objects"]["bbox"], tf.RaggedTensor)
    padded = reader.load(
        photos.parent / "set", batch_size=4, features=("objects",), epochs=1, list_size=5
    )
    ((inputs, _),) = list(padded)
    assert inputs["objects"]["bbox"].shape == (4, 5, 4)
    assert sorted(inputs["objects"]["count"].tolist()) == sorted(counts)
    assert (inputs["objects"]["label"] == -1).sum() == 20 - sum(counts)


def test_tfds_reads_objects(photos: Path, coco: Path) -> None:
    import tensorflow_datasets as tfds

    build(photos, coco)
    builder = tfds.builder_from_directory(photos.parent / "set")
    assert builder.info.features["objects"]["label"].names == ["dog", "cat", "bird"]
    records = records_of(photos)
    for example in builder.as_dataset("train"):
        own = records[example["id"].numpy().decode()]["objects"]
        for name, value in own.items():
            read = example["objects"][name].numpy()
            if name == "segmentation":
                assert [one.decode() for one in read] == value
            else:
                assert np.array_equal(read, value)


PROBLEMS: dict[str, dict[str, Any]] = {
    "no_area": {"bbox": [3, 3, 0, 5]},
    "bad_box": {"bbox": [1, 2, None, 4]},
    "bad_segmentation": {"segmentation": [[1, 1, 2, 2]]},
    "no_class": {"category_id": 77},
    "outside": {"bbox": [200, 3, 4, 5]},
    "repeated_id": {"id": 1},
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_objects_that_cannot_be_used_are_counted(photos: Path, coco: Path, problem: str) -> None:
    good = {"image_id": 100, "category_id": 7, "bbox": [1, 2, 3, 4], "id": 1}
    bad = {**good, "id": 2, **PROBLEMS[problem]}
    coco.write_text(json.dumps(coco_of([good, bad])))
    done = build(photos, coco)
    assert done.manifest.ledger.kept == 4
    assert len(records_of(photos)["a/1.jpg"]["objects"]["label"]) == 1
    assert done.manifest.ledger.dropped_objects == {problem.replace("_", "-"): 1}


@pytest.mark.parametrize(
    "segmentation",
    [
        {"size": [40, 61], "counts": "abc"},
        {"size": [40, 60], "counts": [1, 2, 3]},
        {"size": [40, 60], "counts": [-5, 2405]},
        {"size": [40, 60], "counts": "0\x7f~"},
        {"size": [40, 60]},
        {"counts": [2400]},
    ],
)
def test_run_lengths_that_do_not_fit_are_no_crash(
    photos: Path, coco: Path, segmentation: Any
) -> None:
    one = {"image_id": 100, "category_id": 7, "bbox": [1, 2, 3, 4], "segmentation": segmentation}
    coco.write_text(json.dumps(coco_of([one])))
    assert build(photos, coco).manifest.ledger.dropped_objects == {"bad-segmentation": 1}


def test_a_small_rest_of_an_object_goes(photos: Path, coco: Path) -> None:
    name, (width, height) = "a/1.jpg", SIZES["a/1.jpg"]
    side = min(width, height)
    left = (width - side) // 2
    one = {"image_id": 100, "category_id": 7, "bbox": [left - 6, 4, 8, 10]}  # a quarter is left
    coco.write_text(json.dumps(coco_of([one])))
    done = build(photos, coco, resize="crop:40x40", min_visible=0.3)
    assert len(records_of(photos)[name]["objects"]["bbox"]) == 0
    assert done.manifest.ledger.dropped_objects == {"cut-off": 1}


def test_a_quarter_of_an_object_stays(photos: Path, coco: Path) -> None:
    left = (60 - 40) // 2
    one = {"image_id": 100, "category_id": 7, "bbox": [left - 6, 4, 8, 10]}
    coco.write_text(json.dumps(coco_of([one])))
    build(photos, coco, resize="crop:40x40", min_visible=0.2)
    objects = records_of(photos)["a/1.jpg"]["objects"]
    assert np.allclose(objects["bbox"] * 40, [[4, 0, 14, 2]]) and objects["area"][0] == 20


def test_images_and_annotations_that_do_not_meet(photos: Path, coco: Path) -> None:
    content = coco_of([{"image_id": 555, "category_id": 7, "bbox": [1, 2, 3, 4]}])
    content["images"][0]["file_name"] = "gone.jpg"
    coco.write_text(json.dumps(content))
    done = build(photos, coco)
    assert done.manifest.ledger.kept == 3
    assert quarantined(photos) == {
        "a/1.jpg": "no-row",
        "instances.json/gone.jpg": "missing-file",
        "instances.json/555": "no-such-image",
    }


def test_images_without_annotations_are_kept_by_choice(photos: Path, coco: Path) -> None:
    content = coco_of([])
    content["images"] = content["images"][:1]
    coco.write_text(json.dumps(content))
    (photos / "notes.txt").write_text("not an image")
    assert build(photos, coco, unannotated="keep").manifest.ledger.kept == 4
    assert not quarantined(photos)


def test_an_annotated_size_must_be_that_of_the_image(photos: Path, coco: Path) -> None:
    content = coco_of([])
    content["images"][1] |= {"width": 10, "height": 10}
    coco.write_text(json.dumps(content))
    build(photos, coco)
    assert quarantined(photos) == {"a/2.jpg": "annotated-size"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2", "is not JSON"),
        ('{"images": [{"id": 1, "bbox": NaN}], "categories": []}', "NaN is not JSON"),
        ('{"images": [{"id": 1}], "annotations": [], "categories": []}', "not in the form of COCO"),
        (
            '{"images": [{"id": 1, "file_name": "a"}, {"id": 1, "file_name": "b"}], "categories": '
            "[]}",
            "two images '1'",
        ),
        ('{"categories": [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]}', "two classes 1"),
    ],
)
def test_files_that_are_no_coco_are_refused(
    photos: Path, coco: Path, content: str, message: str
) -> None:
    coco.write_text(content)
    with pytest.raises(InputError, match=message):
        build(photos, coco, annotations_format="coco")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": "x.csv"}, "cannot be combined with --labels"),
        ({"label_pattern": "(?P<label>a)"}, "cannot be combined with --label-pattern"),
        ({"keep_columns": "a"}, "annotations have none"),
        ({"group_by": "a"}, "annotations have none"),
        ({"source": "parquet"}, "needs files of images"),
        ({"min_visible": 1.5}, "min-visible"),
    ],
)
def test_options_that_do_not_go_together(
    photos: Path, coco: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        build(photos, coco, **options)


def test_paths_that_are_no_annotations(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        build(photos, tmp_path / "gone.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="neither XML files"):
        build(photos, tmp_path / "empty")
    (tmp_path / "odd.csv").write_text("path,label\na,b\n")
    with pytest.raises(InputError, match="no column 'xmin'"):
        build(photos, tmp_path / "odd.csv")
    yolo = write_yolo(tmp_path / "yolo")
    (tmp_path / "yolo/data.yaml").unlink()
    with pytest.raises(InputError, match="nothing names the classes"):
        build(photos, yolo)


def test_the_same_bytes_from_any_number_of_workers(photos: Path, coco: Path) -> None:
    for number in range(40):
        (photos / f"c{number}.jpg").write_bytes(photo((24, 24), number))
    options = {"unannotated": "keep", "num_shards": 3, "resize": "fit:20x20"}
    hashes = set()
    for workers in (1, 2):
        done = build(photos, coco, workers=workers, overwrite=True, **options)
        hashes.add(done.manifest.root_hash)
    assert len(hashes) == 1


def test_a_later_generation_has_the_classes_of_the_set(
    photos: Path, coco: Path, tmp_path: Path
) -> None:
    build(photos, coco)
    more = tmp_path / "more"
    more.mkdir()
    (more / "5.jpg").write_bytes(photo((30, 30), 77))
    content = {
        "images": [{"id": 1, "file_name": "5.jpg", "width": 30, "height": 30}],
        "categories": [{"id": 1, "name": "bird"}, {"id": 2, "name": "newt"}],
        "annotations": [
            {"id": number, "image_id": 1, "category_id": number, "bbox": [1, 1, 9, 9]}
            for number in (1, 2)
        ],
    }
    coco.write_text(json.dumps(content))
    job = ImageOptions(
        (str(more),), str(photos.parent / "set"), annotations=str(coco), workers=1, no_report=True
    )
    done = append(job, given=["annotations"])
    assert done.manifest.schema["objects/label"].class_names == ("dog", "cat", "bird")
    record = records_of(photos)["5.jpg"]
    assert record["objects"]["label"].tolist() == [2]


def test_an_export_is_read_back(photos: Path, coco: Path, tmp_path: Path) -> None:
    (photos / "a/2.jpg").write_bytes(photo(SIZES["a/2.jpg"], 1, orientation=6))
    build(photos, coco, split="train=0.5,test=0.5", encoding="png")
    done = reader.export_annotations(tmp_path / "set", tmp_path / "coco", images=True)
    assert done.images == 4 and done.objects == len(OBJECTS)
    source, seen = COCO(str(coco)), 0
    by_name = {one["file_name"]: one for one in source.loadImgs(source.getImgIds())}
    for split, file in done.files.items():
        written = COCO(str(file))
        records = {one["id"]: one for one in reader.random_access(tmp_path / "set", split)}
        for image in written.loadImgs(written.getImgIds()):
            name = image["file_name"].removesuffix(".png")
            pixels = np.asarray(Image.open(tmp_path / "coco/images" / split / image["file_name"]))
            assert np.array_equal(pixels, records[name]["image"])
            assert pixels.shape == (image["height"], image["width"], 3)
            if name == "a/2.jpg":
                continue
            expected = source.loadAnns(source.getAnnIds(by_name[name]["id"]))
            objects = written.loadAnns(written.getAnnIds(image["id"]))
            for one, other in zip(objects, expected, strict=True):
                seen += 1
                assert np.allclose(one["bbox"], other["bbox"], atol=2e-3)
                assert one["area"] == pytest.approx(other["area"], abs=1e-3)
                label = written.loadCats(one["category_id"])[0]["name"]
                assert label == source.loadCats(other["category_id"])[0]["name"]
                if "segmentation" in other:
                    assert np.array_equal(written.annToMask(one), source.annToMask(other))
    assert seen == len(OBJECTS) - 1


def test_a_set_without_objects_has_nothing_to_export(photos: Path, tmp_path: Path) -> None:
    options = {"split": "train=1", "no_labels": True, "workers": 1, "no_report": True}
    preprocess(ImageOptions((str(photos),), str(tmp_path / "set"), **options))
    with pytest.raises(InputError, match="has no images with objects"):
        reader.export_annotations(tmp_path / "set", tmp_path / "out")
    with pytest.raises(UsageError, match="to 'voc'"):
        reader.export_annotations(tmp_path / "set", tmp_path / "out", "voc")


def test_sets_that_cannot_be_exported(photos: Path, coco: Path, tmp_path: Path) -> None:
    build(photos, coco, encoding="raw")
    with pytest.raises(InputError, match="raw pixels"):
        reader.export_annotations(photos.parent / "set", tmp_path / "out", images=True)
    copy = RecordOptions(f"tfds:{photos.parent / 'set'}", str(tmp_path / "records"))
    preprocess(copy)
    with pytest.raises(InputError, match="no images with objects"):
        reader.export_annotations(tmp_path / "records", tmp_path / "out")


def test_an_exported_file_has_the_ending_of_its_content(
    photos: Path, coco: Path, tmp_path: Path
) -> None:
    build(photos, coco, encoding="png")
    done = reader.export_annotations(photos.parent / "set", tmp_path / "out", images=True)
    names = [one["file_name"] for one in json.loads(done.files["train"].read_text())["images"]]
    assert all(name.endswith(".png") for name in names)
    for name in names:
        assert Image.open(tmp_path / "out/images/train" / name).format == "PNG"
