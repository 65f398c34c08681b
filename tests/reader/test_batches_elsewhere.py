"""Batches for those who do not train with TensorFlow: NumPy arrays and PyTorch tensors."""

from __future__ import annotations

import dataclasses
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
    if isinstance(found, list):  # texts for PyTorch
        return found == [text.decode() for text in values.tolist()]
    array = found if isinstance(found, np.ndarray) else found.numpy()
    return array.dtype == values.dtype and np.array_equal(array, values)


@pytest.fixture(
    params=[
        "images",
        "floats",
        "many labels",
        "no labels",
        "text",
        "tokens",
        "ragged",
        "packed",
    ]
)
def stream(request: pytest.FixtureRequest) -> reader.Stream:
    """Two epochs of every kind of set."""
    make: dict[str, Callable[[], Path]] = {
        name: lambda: request.getfixturevalue("tiny") for name in ("images", "floats")
    }
    make["many labels"] = lambda: request.getfixturevalue("make_set")(
        {"train": (12,)}, labels="many"
    )
    make["no labels"] = lambda: request.getfixturevalue("make_set")({"train": (12,)}, labels="none")
    make["text"] = lambda: request.getfixturevalue("text_set")(
        train=[(f"Größe {number}", number % 2) for number in range(9)]
    )
    make["tokens"] = make["ragged"] = lambda: request.getfixturevalue("token_set")(train=TOKENS)
    make["packed"] = lambda: request.getfixturevalue("packed_set")(
        6, train=[[[1, 2, 3], [4, 5]], [[6, 7, 8, 9, 10, 11]], [[1, 2]]]
    )
    options: dict[str, Any] = {"batch_size": 2, "epochs": 2}
    if request.param in ("images", "floats", "many labels", "no labels"):
        options |= {"image_size": 16, "augment": "standard", "batch_size": 4}
    if request.param == "floats":
        options["dtype"] = "float32"
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
def test_a_constant_of_tensorflow_stays_one(tiny: Path) -> None:
    # It is computed once, and its memory handed out with every batch.
    stream = reader.load(tiny, batch_size=4, image_size=16, epochs=1)
    weighted = stream.dataset.map(lambda images, labels: (images, labels, tf.ones([300, 300])))
    for _, _, weights in dataclasses.replace(stream, dataset=weighted).torch():
        assert (weights == 1).all()
        weights.zero_()


@pytest.mark.interop
def test_images_are_not_copied(tiny: Path) -> None:
    import torch

    from reader.torch_batches import _to_torch

    stream = reader.load(tiny, batch_size=4, image_size=16, epochs=1)
    images, _ = next(iter(stream.dataset))
    address = np.asarray(memoryview(images)).ctypes.data
    tensor = _to_torch(images)
    assert tensor.data_ptr() == address and tensor.dtype == torch.uint8
    del images
    assert tensor.float().mean() > 0  # TensorFlow keeps what PyTorch has


def test_arrays_are_not_copied_and_cannot_be_written_to(tiny: Path) -> None:
    stream = reader.load(tiny, batch_size=4, image_size=16, epochs=1)
    for parts in stream.numpy():
        for part in parts:
            assert not part.flags.owndata
            with pytest.raises(ValueError, match="read-only"):
                part[0] = 0


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
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_of_a_loader_are_refused(tiny: Path, workers: int, start: str) -> None:
    import torch

    stream = reader.load(tiny, batch_size=25, image_size=8, epochs=1)
    loader = torch.utils.data.DataLoader(
        stream.torch(), batch_size=None, num_workers=workers, multiprocessing_context=start
    )
    with pytest.raises(UsageError, match=r"Pass num_workers=0; .* reader\.random_access"):
        list(loader)


@pytest.mark.interop
def test_it_cannot_be_sent_to_another_process(tiny: Path) -> None:
    stream = reader.load(tiny, batch_size=25, image_size=8, epochs=1)
    with pytest.raises(UsageError, match=r"Another process cannot read stream\.torch"):
        pickle.dumps(stream.torch())


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
