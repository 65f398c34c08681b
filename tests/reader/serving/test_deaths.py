"""What becomes of an epoch when a worker dies, or all of a service."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import reader
from reader.service.address import parse_address

pytestmark = [pytest.mark.usefixtures("small_windows"), pytest.mark.timeout(600)]

ByEpoch = Callable[..., list[Counter[bytes]]]
IMAGES: dict[str, Any] = {"batch_size": 4, "image_size": 16, "augment": "standard", "seed": 3}


@pytest.mark.proof
def test_a_killed_worker_costs_no_batch(
    serve: Callable[..., Any], tiny: Path, by_epoch: ByEpoch
) -> None:
    served = serve(tiny, "--workers", "2")
    stream = reader.load(tiny, **IMAGES, epochs=2, service=served.address)
    steps = stream.steps_per_epoch

    def kill(number: int) -> None:
        if number == 4:
            served.workers()[0].kill()

    expected = by_epoch(reader.load(tiny, **IMAGES, epochs=2).dataset, steps)
    assert by_epoch(stream.dataset, steps, kill) == expected
    # What the worker had in hand was lost, or it had not begun: either is right. The command looks
    # every few seconds, which may be after the last batch.
    assert served.process.stdout is not None
    assert any("SIGKILL); it is started again" in line for line in served.process.stdout)
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait() == 0


@pytest.mark.proof
def test_a_lost_service_is_replaced_by_this_process(
    serve: Callable[..., Any], tiny: Path, by_epoch: ByEpoch, capfd: pytest.CaptureFixture[str]
) -> None:
    served = serve(tiny, "--workers", "2")

    def kill(number: int) -> None:
        if number == 4:
            served.kill()

    with mock.patch("reader.service.client.PATIENCE", 5):
        stream = reader.load(tiny, **IMAGES, epochs=3, service=served.address)
        steps = stream.steps_per_epoch
        epochs = by_epoch(stream.dataset, steps, kill)
    assert epochs == by_epoch(reader.load(tiny, **IMAGES, epochs=3).dataset, steps)
    told = f"{steps} of {steps} batches of epoch 2 did not come from {served.address}"
    assert told in capfd.readouterr().err


@pytest.mark.proof
def test_a_service_that_comes_back_goes_on(
    serve: Callable[..., Any], tiny: Path, tmp_path: Path, by_epoch: ByEpoch
) -> None:
    journal = ("--journal", str(tmp_path / "journal"))
    served = serve(tiny, *journal)
    stream = reader.load(tiny, **IMAGES, epochs=2, service=served.address)
    steps = stream.steps_per_epoch

    def kill(number: int) -> None:
        if number == 4:
            served.kill()
            serve(tiny, *journal, port=parse_address(served.address, "a test").port)

    expected = by_epoch(reader.load(tiny, **IMAGES, epochs=2).dataset, steps)
    assert by_epoch(stream.dataset, steps, kill) == expected
