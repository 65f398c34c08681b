"""The loop over asynchronous steps: units of batches, dealt out to workers as they become free.

A unit is a run of batch numbers of an epoch. The worker that gets one makes their data set, a pure
function of the numbers, and for each batch reads the variables, computes the gradients and has the
parameter servers apply them, whatever other workers do meanwhile:

    chief    epoch 3, batches [40, 48)  ->  the sums of their losses and counts
    worker   data set -> batch -> variables from the servers -> gradients to the servers

A unit that a lost worker had is given to another one. So every batch of an epoch is trained on, and
counted once; the steps that the lost worker had done of its unit are done twice.
"""

from __future__ import annotations

import dataclasses
import time
from concurrent import futures
from typing import Any

import tensorflow as tf

from foundation.errors import InputError
from shard_format.naming import MANIFEST
from trainer.loop import NOTHING, Loop, OnSteps, StepOptions, Totals
from trainer.objective import COUNTS, Objective
from trainer.parameter_servers.bootstrap import Numbers, Servers
from trainer.parameter_servers.remote_state import RemoteState

# A unit takes that long: much longer than its data set takes to begin; a stop waits for two.
_UNIT_SECONDS = 4.0
_MAX_UNIT = 512  # steps
_UNITS_AT_A_TIME = 2  # of each worker: one waits while another is computed
_LOOK_SECONDS = 0.5
_ANOTHER = "The set is another one on a worker"


class AsynchronousLoop(Loop):
    """The steps of one model whose variables are on parameter servers; see `Loop`.

    Args:
        team: The processes.
        remote: Model and optimizer.
        options: How a step is computed.
        objective: What is minimized.
    """

    counts_classes = False  # of predictions: the variable for it is in the process of the chief

    def __init__(
        self, team: Servers, remote: RemoteState, options: StepOptions, objective: Objective
    ) -> None:
        super().__init__(team.remote, remote.model, remote.optimizer, options, objective)
        self._weights = remote.parts
        self._team = team
        self._remote = remote
        self._is_pushed = False
        self._units: dict[tuple[int, str], Any] = {}
        self._sizes: dict[str, int] = {}
        self._fetching = futures.ThreadPoolExecutor(_UNITS_AT_A_TIME * team.num_workers)

    def train(
        self,
        batches: Any,
        num_steps: int,
        on_steps: OnSteps,
        done: int = 0,
        totals: Totals = NOTHING,
    ) -> Totals:
        """Trains like `Loop.train`; `on_steps` gets the number of steps done, in any order."""
        if not self._is_pushed:  # the copy has what the checkpoint had
            self._remote.push()
            self._is_pushed = True
        return self._run(batches, "train", num_steps, on_steps, done, totals)

    def validate(self, batches: Any, num_steps: int, on_steps: OnSteps) -> Totals:
        """Validates like `Loop.validate`, while no step of the training is under way."""
        return self._run(batches, "validation", num_steps, on_steps, 0, NOTHING)

    def _run(
        self,
        batches: Numbers,
        phase: str,
        num_steps: int,
        on_steps: OnSteps,
        done: int,
        totals: Totals,
    ) -> Totals:
        """Deals out the steps of a phase from `done` on, and adds up what comes back."""
        epoch = batches.place // batches.stream.steps_per_epoch
        unit = self._unit(batches.stream, phase)
        given = (_manifest_of(batches.stream), _int64(epoch))
        units = _Units(unit, self._team, self._fetching, given)
        begun, at_once = done, _UNITS_AT_A_TIME * self._team.num_workers
        started = time.perf_counter() - totals.seconds
        cpu_started = time.process_time() - totals.cpu_seconds
        has_begun = False  # since the last pause: a pause makes no progress
        try:
            while done < num_steps:
                pauses = phase == "train" and has_begun and self.is_due()
                while not pauses and begun < num_steps and len(units.waiting) < at_once:
                    size = self._size(phase, num_steps - begun)
                    units.begin(begun, begun + size)
                    begun += size
                    has_begun = True
                self._team.is_under_way = phase == "train"
                for sums, steps, seconds in units.finished():
                    done += steps
                    totals = _added(totals, sums)
                    self._learn_size(phase, steps, seconds)
                totals = dataclasses.replace(
                    totals,
                    seconds=time.perf_counter() - started,
                    cpu_seconds=time.process_time() - cpu_started,
                )
                if not units.waiting and (pauses or done == num_steps):
                    if phase == "train":
                        self._remote.pull()
                    self._team.is_under_way = has_begun = False
                on_steps(done, totals)
        finally:
            self._team.is_under_way = False
        batches.place = (epoch + 1) * batches.stream.steps_per_epoch
        return totals

    def _unit(self, stream: Any, phase: str) -> Any:
        """A graph of the batches [begin, end) of an epoch, from their data set to their sums.

        It also gives the seconds of all steps but the first.
        """
        key = (id(stream), phase)
        if key not in self._units:
            several = self._train_call if phase == "train" else self._validation_call
            expected = _content(_manifest_of(stream)).numpy()

            # The path is an argument: TensorFlow reads a file whose path is constant once for all.
            @tf.function(autograph=False)
            def unit(manifest: Any, epoch: Any, begin: Any, end: Any) -> Any:
                tf.debugging.assert_equal(_content(manifest), expected, _ANOTHER)
                batches = iter(stream.numbered(epoch, begin, end))
                nothing = (
                    tf.constant(0.0, tf.float64),
                    tf.zeros([len(COUNTS)], tf.int64),
                    tf.constant(-1, tf.int64),
                    tf.constant(0.0, tf.float64),
                )
                # The first step takes the beginning of the data set too.
                one = tf.constant(1, tf.int64)
                sums = several(batches, one, begin, nothing)
                started = tf.timestamp()
                sums = several(batches, end - begin - one, begin + one, sums)
                return sums, tf.timestamp() - started

            self._units[key] = unit
        return self._units[key]

    def _size(self, phase: str, left: int) -> int:
        """Steps of the next unit: smaller ones to the end, so that no worker waits for long."""
        size = self._sizes.get(phase, 1)
        share = -(-left // (_UNITS_AT_A_TIME * self._team.num_workers))
        return min(size, left, max(share, size // 4, 1))

    def _learn_size(self, phase: str, steps: int, seconds: float) -> None:
        """Takes from a unit how many steps fit into the time of one, without its beginning."""
        fitting = int(_UNIT_SECONDS * (steps - 1) / max(seconds, 1e-6)) if steps > 1 else 2
        size = self._sizes.get(phase, 1)
        self._sizes[phase] = max(1, min(2 * size, fitting, _MAX_UNIT))


class _Units:
    """The units of a phase that are under way.

    Args:
        unit: The graph of one.
        team: Whose workers compute them.
        fetching: Threads that wait for results.
        given: The first arguments of every unit.

    Attributes:
        waiting: What will be the result of each -> its steps.
    """

    def __init__(
        self,
        unit: Any,
        team: Servers,
        fetching: futures.ThreadPoolExecutor,
        given: tuple[Any, ...],
    ) -> None:
        self._unit, self._team, self._fetching = unit, team, fetching
        self._given = given
        self.waiting: dict[futures.Future[Any], int] = {}

    def begin(self, begin: int, end: int) -> None:
        """Has a worker compute the batches [begin, end)."""
        value = self._team.coordinator.schedule(
            self._unit, args=(*self._given, _int64(begin), _int64(end))
        )
        self.waiting[self._fetching.submit(value.fetch)] = end - begin

    def finished(self) -> list[tuple[Totals, int, float]]:
        """(totals, steps, seconds of all of them but the first) of what has come back.

        Waits for a moment if there is nothing.

        Raises:
            WorkersLost: A parameter server is missing, or all workers.
            InputError: A worker has another set.
            tf.errors.OpError: A worker could not compute a unit.
        """
        ready, _ = futures.wait(self.waiting, _LOOK_SECONDS, futures.FIRST_COMPLETED)
        self._team.roll_call.require()
        batches = []
        for future in ready:
            steps = self.waiting.pop(future)
            try:
                (loss, counts, bad_step, waited), seconds = future.result()
            except Exception:
                self._raise_cause()
                raise
            totals = Totals(
                loss=float(loss),
                bad_step=int(bad_step),
                waited=float(waited) / self._team.num_workers,
                **dict(zip(COUNTS, map(int, counts), strict=True)),
            )
            batches.append((totals, steps, float(seconds)))
        return batches

    def _raise_cause(self) -> None:
        """Raises the error of the first unit that failed; that of others is that they were ended.

        Raises:
            InputError: A worker has another set.
            Exception: Another error.
        """
        try:
            self._team.coordinator.join()
        except tf.errors.InvalidArgumentError as error:
            if _ANOTHER not in str(error):
                raise
            raise InputError(
                f"{_ANOTHER} than on the chief. Give all processes the same one, under one path."
            ) from error


def _manifest_of(stream: Any) -> Any:
    """Scalar string: the path of the set's manifest."""
    return tf.constant(str(stream.info.directory / MANIFEST))


def _content(path: Any) -> Any:
    """Scalar int64 hash of a file."""
    return tf.strings.to_hash_bucket_fast(tf.io.read_file(path), 1 << 62)


def _added(totals: Totals, more: Totals) -> Totals:
    sums = {name: getattr(totals, name) + getattr(more, name) for name in COUNTS}
    bad = [step for step in (totals.bad_step, more.bad_step) if step >= 0]
    waited = totals.waited + more.waited
    loss = totals.loss + more.loss
    return Totals(loss=loss, bad_step=min(bad, default=-1), waited=waited, **sums)


def _int64(value: int) -> Any:
    return tf.constant(value, tf.int64)
