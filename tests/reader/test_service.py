"""Reading by way of a service, with real processes: a dispatcher, workers, and their deaths.

Nothing depends on how fast they are.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np
import psutil
import pytest
import tensorflow as tf

import reader
from reader.address import Address, check_answers, parse_address
from shard_format import UsageError

pytestmark = [pytest.mark.usefixtures("small_windows"), pytest.mark.timeout(600)]

WAIT_SECONDS = 240  # far more than a process needs to start, even on a machine that is busy


class Served:
    """`shardmill serve` in a process of its own.

    Attributes:
        address: Of the dispatcher.
        process: The command.
    """

    def __init__(
        self, repository: Path, directory: Path, *options: str, port: int | None = None
    ) -> None:
        port = port or _free_ports(3)
        self.address = str(Address("localhost", port))
        command = [sys.executable, "-m", "cli.main", "serve", str(directory), *options]
        self.process = subprocess.Popen(
            [*command, "--port", str(port)], cwd=repository, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line == "2 workers\n":
                break
        assert self.process.poll() is None

    def workers(self) -> list[psutil.Process]:
        children = psutil.Process(self.process.pid).children()
        return [child for child in children if "spawn_main" in " ".join(child.cmdline())]

    def kill(self) -> None:
        """Everything at once, as when a machine goes."""
        processes = [*self.workers(), psutil.Process(self.process.pid)]
        for process in processes:
            process.kill()
        psutil.wait_procs(processes, WAIT_SECONDS)


def _free_ports(count: int) -> int:
    """The first of so many that nobody listens on, below those that systems give to clients."""
    for first in range(15000 + os.getpid() % 1000 * 10, 32000, 10):
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("", port))
        except OSError:
            continue
        return first
    raise AssertionError("no free ports")


@pytest.fixture
def serve(repository: Path) -> Iterator[Callable[..., Served]]:
    started: list[Served] = []

    def start(directory: Path, *options: str, port: int | None = None) -> Served:
        started.append(Served(repository, directory, *options, port=port))
        return started[-1]

    yield start
    for served in started:
        if served.process.poll() is None:
            served.kill()
        served.process.wait(WAIT_SECONDS)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, repository: Path, tiny: Path) -> Iterator[str]:
    """The address of a service for tests that leave it alive."""
    served = Served(repository, tiny)
    yield served.address
    served.kill()
    served.process.wait(WAIT_SECONDS)


def contents(dataset: tf.data.Dataset) -> list[bytes]:
    """Every batch as bytes: equal if and only if all values are."""
    return [_bytes(batch) for batch in dataset]


def _bytes(batch: Any) -> bytes:
    return b"|".join(
        tf.io.serialize_tensor(part).numpy()
        for part in tf.nest.flatten(batch, expand_composites=True)
    )


def by_epoch(batches: list[bytes], steps: int) -> list[Counter[bytes]]:
    return [Counter(batches[start : start + steps]) for start in range(0, len(batches), steps)]


PICTURES: dict[str, Any] = {"batch_size": 4, "image_size": 16, "augment": "standard", "seed": 3}


@pytest.mark.parametrize(
    "options",
    [
        {"epochs": 2},
        {"epochs": 2, "remainder": "pad", "shuffle": "full"},
        {"epochs": 1, "remainder": "keep", "shuffle": "off"},
        {"epochs": 1, "remainder": "wrap", "worker": (1, 2)},
        {"epochs": 1, "sample": {"class1": 1.0, "class2": 3.0}},
    ],
)
def test_every_batch_of_local_reading_comes_once(
    shared: str, tiny: Path, options: dict[str, Any]
) -> None:
    local = reader.load(tiny, **PICTURES, **options)
    served = reader.load(tiny, **PICTURES, **options, service=shared)
    steps = local.steps_per_epoch
    assert served.steps_per_epoch == steps
    assert served.dataset.element_spec == local.dataset.element_spec
    assert served.dataset.cardinality() == local.dataset.cardinality()
    expected = by_epoch(contents(local.dataset), steps)
    assert by_epoch(contents(served.dataset), steps) == expected


@pytest.mark.proof
def test_token_ids_in_groups_of_length(
    shared: str, token_set: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    generator = np.random.default_rng(1)
    records = [(generator.integers(0, 50, 1 + n % 13).tolist(), n % 2) for n in range(70)]
    directory = token_set(train=records)
    for pad in ("longest", "none"):
        options: dict[str, Any] = {"batch_size": 4, "buckets": 2, "augment": "standard", "pad": pad}
        local = reader.load(directory, **options, epochs=2)
        served = reader.load(directory, **options, epochs=2, service=shared)
        expected = by_epoch(contents(local.dataset), local.steps_per_epoch)
        assert by_epoch(contents(served.dataset), local.steps_per_epoch) == expected
    assert "did not come" not in capfd.readouterr().err


@pytest.mark.proof
def test_documents(shared: str, text_set: Callable[..., Path]) -> None:
    directory = text_set(train=[(f"document number {n} of them", n % 2) for n in range(37)])
    options: dict[str, Any] = {"batch_size": 3, "augment": "standard"}
    local = contents(reader.load(directory, **options, epochs=1).dataset)
    assert Counter(
        contents(reader.load(directory, **options, epochs=1, service=shared).dataset)
    ) == (Counter(local))


@pytest.mark.proof
def test_endless_epochs_follow_each_other(shared: str, tiny: Path) -> None:
    local = reader.load(tiny, **PICTURES)
    served = reader.load(tiny, **PICTURES, service=shared)
    assert served.dataset.cardinality() == tf.data.INFINITE_CARDINALITY
    steps = local.steps_per_epoch
    expected = by_epoch(contents(local.dataset.take(3 * steps)), steps)
    assert by_epoch(contents(served.dataset.take(3 * steps)), steps) == expected


@pytest.mark.proof
def test_one_data_set_may_be_iterated_twice_at_once(shared: str, tiny: Path) -> None:
    served = reader.load(tiny, **PICTURES, epochs=1, service=shared)
    both = [
        (_bytes(a), _bytes(b)) for a, b in tf.data.Dataset.zip((served.dataset, served.dataset))
    ]
    first, second = zip(*both, strict=True)
    assert Counter(first) == Counter(second)
    assert len(set(first)) == served.steps_per_epoch


def test_states_lie_between_epochs(shared: str, tiny: Path) -> None:
    local = reader.load(tiny, **PICTURES, epochs=2)
    served = reader.load(tiny, **PICTURES, epochs=2, service=shared)
    steps = local.steps_per_epoch
    assert served.state(steps) == local.state(steps)
    with pytest.raises(UsageError, match=r"where an epoch ends.*steps_done=3"):
        served.state(3)
    # A state of a stream without service may lie anywhere: what is left is read.
    rest = reader.load(tiny, **PICTURES, epochs=2, service=shared, state=local.state(5))
    found = contents(rest.dataset)
    expected = contents(local.dataset)
    assert Counter(found[: steps - 5]) == Counter(expected[5:steps])
    assert Counter(found[steps - 5 :]) == Counter(expected[steps:])


@pytest.mark.proof
def test_keras_fits_over_it(shared: str, tiny: Path) -> None:
    stream = reader.load(tiny, batch_size=10, image_size=8, service=shared)
    model = keras.Sequential(
        [keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(110)]
    )
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(stream.dataset, steps_per_epoch=stream.steps_per_epoch, epochs=2, verbose=0)
    assert len(history.history["loss"]) == 2


@pytest.mark.proof
def test_damage_is_an_error_and_not_a_gap(shared: str, make_set: Any) -> None:
    directory = make_set({"train": (40,)})
    shard = next(directory.glob("*train*"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 4
    shard.write_bytes(data)
    stream = reader.load(directory, **PICTURES, epochs=1, service=shared)
    with pytest.raises(tf.errors.DataLossError):
        contents(stream.dataset)


def test_a_killed_worker_costs_no_batch(
    serve: Callable[..., Served], tiny: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    served = serve(tiny, "--workers", "2")
    expected = contents(reader.load(tiny, **PICTURES, epochs=2).dataset)
    stream = reader.load(tiny, **PICTURES, epochs=2, service=served.address)
    steps = stream.steps_per_epoch
    found = []
    for number, batch in enumerate(stream.dataset):
        found.append(_bytes(batch))
        if number == 4:
            served.workers()[0].kill()
    assert by_epoch(found, steps) == by_epoch(expected, steps)
    # What the worker had in hand was lost, or it had not begun: either is right.
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(WAIT_SECONDS) == 0
    assert served.process.stdout is not None
    assert "SIGKILL); it is started again" in served.process.stdout.read()


def test_a_lost_service_is_replaced_by_this_process(
    serve: Callable[..., Served], tiny: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    served = serve(tiny, "--workers", "2")
    expected = contents(reader.load(tiny, **PICTURES, epochs=3).dataset)
    with mock.patch("reader.service.PATIENCE", 5):
        stream = reader.load(tiny, **PICTURES, epochs=3, service=served.address)
        found = []
        for number, batch in enumerate(stream.dataset):
            found.append(_bytes(batch))
            if number == 4:
                served.kill()
    steps = stream.steps_per_epoch
    assert by_epoch(found, steps) == by_epoch(expected, steps)
    told = f"{steps} of {steps} batches of epoch 2 did not come from {served.address}"
    assert told in capfd.readouterr().err


@pytest.mark.proof
def test_a_service_that_comes_back_goes_on(
    serve: Callable[..., Served], tiny: Path, tmp_path: Path
) -> None:
    journal = ("--journal", str(tmp_path / "journal"))
    served = serve(tiny, *journal)
    expected = contents(reader.load(tiny, **PICTURES, epochs=2).dataset)
    stream = reader.load(tiny, **PICTURES, epochs=2, service=served.address)
    found = []
    for number, batch in enumerate(stream.dataset):
        found.append(_bytes(batch))
        if number == 4:
            served.kill()
            serve(tiny, *journal, port=parse_address(served.address, "a test").port)
    steps = stream.steps_per_epoch
    assert by_epoch(found, steps) == by_epoch(expected, steps)


def test_workers_die_with_their_parent(serve: Callable[..., Served], tiny: Path) -> None:
    served = serve(tiny, "--workers", "2")
    workers = served.workers()
    assert len(workers) == 2
    os.kill(served.process.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(workers, WAIT_SECONDS)
    assert not alive


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_cleanly(number: int, serve: Callable[..., Served], tiny: Path) -> None:
    served = serve(tiny)
    workers = served.workers()
    served.process.send_signal(number)
    assert served.process.wait(WAIT_SECONDS) == 0
    assert not any(worker.is_running() for worker in workers)
    assert served.process.stdout is not None
    assert served.process.stdout.read().endswith("stopped\n")


@pytest.mark.proof
def test_workers_of_another_machine_join(
    serve: Callable[..., Served], shardmill: Any, repository: Path, tiny: Path
) -> None:
    served = serve(tiny)
    port = parse_address(served.address, "a test").port + 5
    command = [sys.executable, "-m", "cli.main", "serve", str(tiny), "--join", served.address]
    joined = subprocess.Popen(
        [*command, "--workers", "1", "--port", str(port)], cwd=repository, stdout=subprocess.PIPE
    )
    try:
        assert served.process.stdout is not None
        assert any(line == "3 workers\n" for line in served.process.stdout)
        (own,) = [child for child in psutil.Process(joined.pid).children()][-1:]
        joined.terminate()
        assert joined.wait(WAIT_SECONDS) == 0
        assert not own.is_running()
    finally:
        joined.kill()
        joined.wait()


def test_a_taken_port_is_told(shardmill: Any, tiny: Path) -> None:
    first = _free_ports(3)
    for taken in (first, first + 2):
        with socket.socket() as other:
            other.bind(("", taken))
            other.listen()
            done = shardmill("serve", tiny, "--port", first, "--workers", 2)
        assert done.returncode == 2
        assert f"for {taken} in shardmill serve" in done.stderr
        assert "Traceback" not in done.stderr


def test_what_is_wrong_with_serve_is_told(shardmill: Any, tiny: Path, tmp_path: Path) -> None:
    for arguments, code, text in [
        ((tmp_path,), 3, "manifest"),
        ((tiny, "--workers", -1), 2, "workers"),
        ((tiny, "--port", 65535), 2, "ports"),
        ((tiny, "--join", "there:5050"), 2, "grpc://host:5050"),
        ((tiny, "--join", f"grpc://localhost:{_free_ports(1)}"), 2, "must answer"),
    ]:
        done = shardmill("serve", *arguments)
        assert done.returncode == code and text in done.stderr, done.stderr


@pytest.mark.parametrize(
    "address",
    ["localhost:5050", "grpc://localhost", "grpc://localhost:x", "grpc://a:5050/b", 7, ""],
)
def test_an_address_is_checked(address: Any, tiny: Path) -> None:
    with pytest.raises(UsageError, match="grpc://host:5050"):
        reader.load(tiny, **PICTURES, service=address)


def test_addresses_are_read_as_they_are_written() -> None:
    for address in (Address("localhost", 5050), Address("10.0.0.5", 1), Address("::1", 65535)):
        assert parse_address(str(address), "a test") == address


def test_a_service_that_does_not_answer_is_told(tiny: Path) -> None:
    address = str(Address("localhost", _free_ports(1)))
    with pytest.raises(UsageError, match=r"must answer.*refused.*shardmill serve DIR"):
        reader.load(tiny, **PICTURES, service=address)


def test_other_servers_are_no_service() -> None:
    with socket.create_server(("", 0)) as server:
        with mock.patch("reader.address._TIMEOUT_SECONDS", 0.5), pytest.raises(UsageError):
            check_answers(Address("localhost", server.getsockname()[1]), "a test")


@pytest.mark.parametrize("option", [{"cache": "memory"}, {"cache": "disk"}, {"synonyms": "words"}])
def test_what_cannot_be_sent_is_refused(option: dict[str, Any], tiny: Path) -> None:
    with pytest.raises(UsageError, match="with service"):
        reader.load(tiny, **PICTURES, **option, service="grpc://localhost:1")


def test_a_mixture_has_no_service(tiny: Path) -> None:
    with pytest.raises(UsageError, match="service"):
        reader.mix({tiny: 1.0}, **PICTURES, service="grpc://localhost:1")
