"""Batches for those who do not train with TensorFlow: NumPy arrays and PyTorch tensors."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import reader
from shard_format import UsageError

MakeSet = Callable[..., Path]
TOKENS = [([1, 2, 3], 0), ([4], 1), ([5, 6], 1), ([7, 8, 9, 10], 0)]


def same(found: Any, expected: Any) -> bool:
    """Whether what came out is what the data set has, in the same structure."""
    if isinstance(expected, dict):
        return list(found) == list(expected) and all(
            same(found[name], expected[name]) for name in expected
        )
    if isinstance(expected, tuple):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, tf.RaggedTensor):
        return [row.tolist() for row in found] == expected.to_list()
    values = expected.numpy()
    if isinstance(found, list) and not isinstance(found[0], str):  # encoded images
        return [bytes(np.asarray(image)) for image in found] == values.tolist()
    if isinstance(found, list):  # texts for PyTorch
        return found == [text.decode() for text in values.tolist()]
    array = found if isinstance(found, np.ndarray) else found.numpy()
    if array.dtype != values.dtype or array.shape != values.shape:
        return False
    if array.ndim < 4:
        return np.array_equal(array, values)
    # Images are resized by OpenCV there and by TensorFlow here: in whole numbers, or in float32.
    difference = np.abs(array.astype(np.float32) - values.astype(np.float32)).max()
    return bool(difference <= (1 if array.dtype == np.uint8 else 0.01))


@pytest.fixture(
    params=[
        "images",
        "floats",
        "encoded",
        "many labels",
        "no labels",
        "text",
        "tokens",
        "ragged",
        "packed",
        "no segments",
    ]
)
def stream(request: pytest.FixtureRequest) -> reader.Stream:
    """Two epochs of every kind of set."""
    make: dict[str, Callable[[], Path]] = {
        name: lambda: request.getfixturevalue("tiny") for name in ("images", "floats", "encoded")
    }
    make["many labels"] = lambda: request.getfixturevalue("make_set")(
        {"train": (12,)}, labels="many"
    )
    make["no labels"] = lambda: request.getfixturevalue("make_set")({"train": (12,)}, labels="none")
    make["text"] = lambda: request.getfixturevalue("text_set")(
        train=[(f"Größe {number}", number % 2) for number in range(9)]
    )
    make["tokens"] = make["ragged"] = lambda: request.getfixturevalue("token_set")(train=TOKENS)
    make["packed"] = make["no segments"] = lambda: request.getfixturevalue("packed_set")(
        6, train=[[[1, 2, 3], [4, 5]], [[6, 7, 8, 9, 10, 11]], [[1, 2]]]
    )
    options: dict[str, Any] = {"batch_size": 2, "epochs": 2}
    if request.param in ("images", "floats", "many labels", "no labels"):
        options |= {"image_size": 16, "augment": "standard", "batch_size": 4}
    if request.param == "encoded":
        options |= {"decode": False, "batch_size": 4}
    if request.param == "floats":
        options["dtype"] = "float32"
    if request.param == "no segments":
        options["segments"] = False
    if request.param == "ragged":
        options["pad"] = "none"
    return reader.load(make[request.param](), **options)


def test_arrays_are_those_of_the_data_set(stream: reader.Stream) -> None:
    arrays = stream.numpy()
    taken, expected = list(arrays), list(stream.dataset)
    assert len(taken) == len(expected) == len(arrays) == 2 * stream.steps_per_epoch
    assert all(map(same, taken, expected))
    assert all(map(same, arrays, expected)), "the same again"


@pytest.mark.interop
def test_tensors_are_those_of_the_data_set(stream: reader.Stream) -> None:
    import torch

    tensors = stream.torch()
    assert isinstance(tensors, torch.utils.data.IterableDataset)
    taken, expected = list(tensors), list(stream.dataset)
    assert len(taken) == len(expected) == len(tensors) == 2 * stream.steps_per_epoch
    assert all(map(same, taken, expected))


@pytest.mark.interop
def test_whoever_writes_to_tensors_changes_nothing_else(stream: reader.Stream) -> None:
    import torch

    expected = list(stream.dataset)
    for _ in range(2):
        kept = []
        for batch, right in zip(stream.torch(), expected, strict=True):
            assert same(batch, right)
            parts = [part for part in tf.nest.flatten(batch) if isinstance(part, torch.Tensor)]
            for part in parts:
                part.fill_(77)
            kept.append(parts)
        assert all((part == 77).all() for parts in kept for part in parts)


@pytest.mark.interop
def test_tensors_share_the_memory_of_arrays(tiny: Path) -> None:
    from reader.torch_batches import TorchBatches

    stream = reader.load(tiny, batch_size=4, image_size=16, epochs=1)
    images, _ = next(iter(stream))
    tensor = TorchBatches(stream)._to_device(images)
    assert tensor.data_ptr() == images.ctypes.data


def test_whoever_writes_to_arrays_changes_nothing_else(stream: reader.Stream) -> None:
    expected = list(stream.dataset)
    for _ in range(2):
        for batch, right in zip(stream, expected, strict=True):
            assert same(batch, right)
            for part in tf.nest.flatten(batch):
                if isinstance(part, np.ndarray) and part.dtype != object:
                    part.fill(77)


def test_texts_are_bytes_in_numpy(text_set: MakeSet) -> None:
    stream = reader.load(text_set(train=[("Größe", 1)]), batch_size=1, epochs=1)
    texts, labels = next(iter(stream.numpy()))
    assert texts.dtype == object and texts.tolist() == ["Größe".encode()]
    assert labels.dtype == np.int64


@pytest.mark.interop
def test_texts_are_str_in_pytorch(text_set: MakeSet) -> None:
    stream = reader.load(text_set(train=[("Größe", 1)]), batch_size=1, epochs=1)
    assert next(iter(stream.torch()))[0] == ["Größe"]


@pytest.mark.parametrize("face", ["numpy", pytest.param("torch", marks=pytest.mark.interop)])
def test_a_stream_that_goes_on_has_the_length_of_the_rest(tiny: Path, face: str) -> None:
    def load(state: dict[str, Any] | None = None) -> reader.Stream:
        return reader.load(tiny, batch_size=32, image_size=8, epochs=2, state=state)

    whole = [labels.tolist() for _, labels in load().numpy()]
    rest = getattr(load(load().state(4)), face)()
    assert len(rest) == len(whole) - 4 == 2
    assert [labels.tolist() for _, labels in rest] == whole[4:]


def test_a_mixture_is_a_stream_too(tiny: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(tiny, tmp_path / "copy")
    mixed = reader.mix(
        {tiny: 0.7, copy: 0.3}, batch_size=16, steps_per_epoch=3, epochs=2, image_size=8
    )
    batches = [labels.tolist() for _, labels in mixed.numpy()]
    assert len(batches) == len(mixed.numpy()) == 6
    assert batches == [labels.numpy().tolist() for _, labels in mixed.dataset]


def test_an_endless_stream_has_no_length(tiny: Path) -> None:
    stream = reader.load(tiny, batch_size=50, image_size=8)
    with pytest.raises(TypeError, match="epochs=None"):
        len(stream.numpy())
    batches = iter(stream.numpy())
    assert [len(next(batches)[1]) for _ in range(7)] == [50] * 7


@pytest.mark.interop
def test_pytorch_loader_takes_it_as_it_is(tiny: Path) -> None:
    import torch

    stream = reader.load(tiny, batch_size=25, image_size=8, epochs=1)
    loader = torch.utils.data.DataLoader(stream.torch(), batch_size=None)
    assert len(loader) == 5
    sizes = [(tuple(images.shape), len(labels)) for images, labels in loader]
    assert sizes == [((25, 8, 8, 3), 25)] * 4 + [((10, 8, 8, 3), 10)]


@pytest.mark.interop
@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_of_a_loader_give_the_same_batches(tiny: Path, workers: int, start: str) -> None:
    import torch

    def load(state: dict[str, Any] | None = None) -> reader.Stream:
        return reader.load(
            tiny, batch_size=10, image_size=8, augment="standard", epochs=2, state=state
        )

    whole = list(load())
    for first in (0, 7):
        loader = torch.utils.data.DataLoader(
            load(load().state(first)).torch(),
            batch_size=None,
            num_workers=workers,
            multiprocessing_context=start,
        )
        batches = [(images.numpy(), labels.numpy()) for images, labels in loader]
        assert len(batches) == len(whole) - first
        for batch, expected in zip(batches, whole[first:], strict=True):
            assert all(map(np.array_equal, batch, expected))


def test_a_stream_can_be_sent_to_another_process(tiny: Path, tmp_path: Path) -> None:
    stream = reader.load(tiny, batch_size=25, image_size=8, epochs=2)
    stream.load_state_dict(stream.state(3))
    there = pickle.loads(pickle.dumps(stream))
    assert there.first_step == 3 and all(
        np.array_equal(one, other)
        for batch, expected in zip(there, stream, strict=True)
        for one, other in zip(batch, expected, strict=True)
    )


def test_a_mixture_can_be_sent_to_another_process(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copytree(tiny, tmp_path / "copy")
    monkeypatch.chdir(copy.parent)
    mixed = reader.mix(
        {tiny: 1, "copy": 1}, batch_size=16, image_size=8, epochs=1, schedule={4: {"copy": 1}}
    )
    mixed.load_state_dict(mixed.state(2))
    sent = pickle.dumps(mixed)
    monkeypatch.chdir("/")
    there = pickle.loads(sent)
    assert there.first_step == 2
    assert [labels.tolist() for _, labels in there] == [labels.tolist() for _, labels in mixed]


@pytest.mark.interop
def test_a_device_that_is_not_there_is_reported(tiny: Path) -> None:
    import torch

    stream = reader.load(tiny, batch_size=25, image_size=8, epochs=1)
    assert next(iter(stream.torch("cpu")))[0].device == torch.device("cpu")
    assert next(iter(stream.torch("meta")))[0].device == torch.device("meta")
    for device in ("gpu", 3.5, "cuda:99"):
        with pytest.raises(UsageError, match=r"PyTorch cannot use device"):
            stream.torch(device)


@pytest.mark.proof
def test_without_pytorch_it_is_reported_how_to_install_it(tiny: Path) -> None:
    program = f"""
import sys
import importlib.abc
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, Missing())
import reader
from shard_format import UsageError
stream = reader.load({str(tiny)!r}, batch_size=4, image_size=8, epochs=1)
assert len(list(stream.numpy())) == 28
try:
    stream.torch()
except UsageError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "Install it with 'pip install torch'" in done.stdout, done.stderr
