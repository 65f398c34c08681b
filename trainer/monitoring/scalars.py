"""TensorBoard: a point per finished epoch, training and validation in one chart, and of steps."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from shard_format import InputError
from trainer.events import EpochDone


class Scalars:
    """The event files of a run, under `train/`, `validation/` and, for steps, `steps/`.

    TensorBoard draws the same tag of two directories into one chart. A continued run adds files;
    points of an epoch that runs again replace those of the kill, for the step is the epoch.

    Args:
        directory: The directory to point `tensorboard --logdir` at.
    """

    def __init__(self, directory: Path) -> None:
        with _naming_files(directory):
            self._train = tf.summary.create_file_writer(str(directory / "train"))
            self._validation = tf.summary.create_file_writer(str(directory / "validation"))
            self._steps = tf.summary.create_file_writer(str(directory / "steps"))
        self._directory = directory

    def close(self) -> None:
        """Closes the files."""
        with _naming_files(self._directory):
            self._train.close()
            self._validation.close()
            self._steps.close()

    def write(self, epoch: EpochDone) -> None:
        """Writes the numbers of one epoch and flushes, so that a kill loses none."""
        values = dataclasses.asdict(epoch) | {"skipped": epoch.skipped or None}
        del values["epoch"]
        validation = {
            name.removeprefix("val_"): values.pop(name)
            for name in [*values]
            if name.startswith("val_")
        }
        with _naming_files(self._directory):
            _write(self._train, epoch.epoch, values)
            _write(self._validation, epoch.epoch, validation)

    def write_steps(self, step: int, values: dict[str, float | None]) -> None:
        """Writes numbers of the steps since the last point.

        Args:
            step: Step of the run, counted over all epochs.
            values: Values by tag; None is left out.
        """
        with _naming_files(self._directory):
            _write(self._steps, step, values)

    def write_image(self, tag: str, epoch: int, png: bytes) -> None:
        """Writes an image summary of one epoch."""
        with _naming_files(self._directory), self._validation.as_default():
            tf.summary.image(tag, tf.io.decode_png(png, channels=3)[None], step=epoch)
            self._validation.flush()

    def write_text(self, tag: str, epoch: int, markdown: str) -> None:
        """Writes a text of a validation."""
        with _naming_files(self._directory), self._validation.as_default():
            tf.summary.text(tag, markdown, step=epoch)
            self._validation.flush()


@contextlib.contextmanager
def _naming_files(directory: Path) -> Iterator[None]:
    """Raises what TensorFlow raises of event files as an error that a user can fix."""
    try:
        yield
    except tf.errors.OpError as error:
        said = re.sub(r"^\{\{.*?\}\} | \[Op:.*", "", str(error.message).partition("\n")[0])
        raise InputError(
            f"Cannot write to {directory}: {said}. Free some space, or remove what is in the way, "
            "and run the same command again; it resumes."
        ) from error


def _write(writer: tf.summary.SummaryWriter, step: int, values: dict[str, float | None]) -> None:
    with writer.as_default():
        for tag, value in values.items():
            if value is not None:
                tf.summary.scalar(tag, value, step=step)
    writer.flush()
