"""Memory of batches: it is taken again, and never while somebody holds it."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import reader
from reader.batch_memory import aligned_empty


def test_memory_that_nobody_holds_is_taken_again() -> None:
    array = aligned_empty((4, 10, 3), "uint8")
    place, part = array.ctypes.data, array[1:, ::2]
    del array
    other = aligned_empty((4, 10, 3), "uint8")
    assert other.ctypes.data != place
    del part
    assert aligned_empty((4, 10, 3), "uint8").ctypes.data == place


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=40))
def test_arrays_that_are_held_keep_their_values(taken: list[tuple[int, bool]]) -> None:
    held: list[tuple[int, np.ndarray]] = []
    for number, (size, drops) in enumerate(taken):
        array = aligned_empty((size, 100), "float32")
        assert array.shape == (size, 100) and array.dtype == np.float32
        assert array.ctypes.data % 64 == 0
        array[:] = number
        held.append((number, array[:, 1:]))
        if drops:
            held.pop(number * 7 % len(held))
        assert all((view == known).all() for known, view in held)


def test_threads_never_share_memory() -> None:
    wrong: list[int] = []

    def work(own: int) -> None:
        for _ in range(3000):
            array = aligned_empty((50,), "int64")
            array[:] = own
            if (array != own).any():
                wrong.append(own)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_batches_that_are_kept_do_not_change(tiny: Path) -> None:
    options = {"batch_size": 10, "image_size": 8, "augment": "standard", "epochs": 2}
    kept = [images for images, _ in reader.load(tiny, **options)]
    copies = [images.copy() for images, _ in reader.load(tiny, **options)]
    assert all(map(np.array_equal, kept, copies))
