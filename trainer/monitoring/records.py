"""What a run shows of itself: TensorBoard files, figures and tables next to the model.

    RUN_DIR/learning_curve.png       all epochs
    RUN_DIR/confusion_matrix.csv     true and predicted classes of the last validation; .png too
    RUN_DIR/sample_predictions.png   some validation examples; .md of texts

Numbers are written after every epoch. Figures are drawn after the last one, and before as long as
that takes next to none of the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from trainer.checkpointing import run_dir
from trainer.checkpointing.best import best_epoch
from trainer.checkpointing.run_dir import CONFUSION, CURVE, SAMPLES, TENSORBOARD, write_file
from trainer.data import Data
from trainer.events import EpochDone
from trainer.loop import NOTHING, Totals
from trainer.models.shapes import SequenceShape
from trainer.monitoring.confusion import MAX_CLASSES, Confusion, Matrix, as_csv
from trainer.monitoring.figures import (
    MAX_DRAWN_CLASSES,
    confusion_matrix,
    learning_curve,
    sample_predictions,
)
from trainer.monitoring.samples import SamplePrediction, Samples, table
from trainer.monitoring.scalars import Scalars
from trainer.options import Settings
from trainer.train_state import TrainState

# Of the time since the run began that figures may take before its last epoch.
_DRAWING_SHARE = 0.02
_DRAWING_SECONDS = 2.0  # of the first time, which loads Matplotlib; estimated
# Between two points of the steps, unless the loss scale has changed.
_POINT_SECONDS = 10.0
# Of the probabilities of one sequence of a language model, which training never holds.
_MAX_OUTPUT_BYTES = 512 << 20  # 512 MiB


class Records:
    """The files of a run that the chief writes while it trains.

    Args:
        options: Options of the run.
        data: What it learns from.
        learner: What learns.
    """

    def __init__(self, options: Settings, data: Data, learner: TrainState) -> None:
        self._options = options
        self._data = data
        self._learner = learner
        self._scalars = Scalars(options.run_dir / TENSORBOARD)
        self._samples: Samples | None = None
        self._started = time.monotonic()
        self._drawn_seconds, self._next_seconds = 0.0, _DRAWING_SECONDS
        self._point = (0, 0, NOTHING)
        self._point_at = time.monotonic()
        self._scale: float | None = None

    def close(self) -> None:
        """Closes the files."""
        self._scalars.close()

    def steps(self, epoch: int, step: int, first: int, totals: Totals) -> None:
        """Writes a point of training steps, if it is time for one.

        Args:
            epoch: Counted from 1.
            step: Steps of the epoch that are done.
            first: Steps before the epoch.
            totals: Sums over the steps of the epoch.
        """
        scale, now = self._learner.loop.loss_scale, time.monotonic()
        if scale == self._scale and now - self._point_at < _POINT_SECONDS:
            return
        known, steps, before = self._point
        if known != epoch:
            steps, before = 0, NOTHING
        done = totals.since(before)
        self._point, self._point_at, self._scale = (epoch, step, totals), now, scale
        if not done.examples or done.seconds <= 0:
            return
        rate = (step - steps) * self._options.batch_size / done.seconds
        self._scalars.write_steps(
            first + step,
            {
                "loss": done.mean_loss,
                "learning_rate": self._learner.last_learning_rate,
                "loss_scale": scale,
                "examples_per_second": rate,
                "input_wait": None if self._options.deterministic else done.input_wait,
            },
        )

    def epoch(self, history: Sequence[EpochDone], matrix: Matrix | None) -> None:
        """Writes the numbers of an epoch.

        Args:
            history: All epochs, this one the last.
            matrix: The confusion matrix of its validation, if one was counted.
        """
        directory = self._options.run_dir
        run_dir.write_history(directory, history)
        self._scalars.write(history[-1])
        if matrix is not None:
            counts = as_csv(matrix, self._data.class_names)
            write_file(directory / f"{CONFUSION}.csv", counts.encode())

    def draw(self, history: Sequence[EpochDone], matrix: Matrix | None, is_last: bool) -> None:
        """Draws an epoch if it is the last one, or if there is time; see `epoch`.

        It comes after the checkpoint, so that nothing is lost where it fails.
        """
        if is_last or self._is_time():
            begin = time.monotonic()
            self._draw(history, matrix)
            self._next_seconds = time.monotonic() - begin
            self._drawn_seconds += self._next_seconds

    def _is_time(self) -> bool:
        """Whether figures may be drawn in the middle of a run."""
        allowed = _DRAWING_SHARE * (time.monotonic() - self._started)
        return self._drawn_seconds + self._next_seconds <= allowed

    def _draw(self, history: Sequence[EpochDone], matrix: Matrix | None) -> None:
        directory, epoch = self._options.run_dir, history[-1].epoch
        best = best_epoch(history, self._options.monitor)
        curve = learning_curve(history, best.epoch if best else None)
        write_file(directory / CURVE, curve)
        names = self._data.class_names
        if matrix is not None and len(names) <= MAX_DRAWN_CLASSES:
            self._show(CONFUSION, epoch, confusion_matrix(matrix, names, epoch))
        predictions = self._predictions()
        if predictions and predictions[0].image is not None:
            self._show(SAMPLES, epoch, sample_predictions(predictions, epoch))
        elif predictions:
            text = table(predictions)
            write_file(directory / f"{SAMPLES}.md", text.encode())
            self._scalars.write_text(SAMPLES, epoch, text)

    def _show(self, name: str, epoch: int, png: bytes) -> None:
        write_file(self._options.run_dir / f"{name}.png", png)
        self._scalars.write_image(name, epoch, png)

    def _predictions(self) -> list[SamplePrediction]:
        """Predictions for the samples; none without validation."""
        validation, shape = self._data.validation, self._data.input_shape
        if validation is None or not self._options.sample_predictions:
            return []
        at_once = 1
        if isinstance(shape, SequenceShape):
            at_once = _MAX_OUTPUT_BYTES // (4 * shape.length * shape.vocabulary_size)
            if not at_once:
                return []
        if self._samples is None:
            self._samples = Samples(
                validation.dataset,
                self._options.sample_predictions,
                self._options.seed,
                self._data.class_names,
                self._data.text_of,
                at_once,
            )
        with self._learner.averaged():
            return self._samples.predict(self._learner.model)


def make_confusion(data: Data, learner: TrainState) -> Callable[[], Matrix | None]:
    """Has the validation counted by class; gives what takes the counts, on all workers."""
    has_classes = not data.multi_label and 0 < len(data.class_names) <= MAX_CLASSES
    if data.validation is None or not has_classes or not learner.loop.counts_classes:
        return lambda: None
    confusion = Confusion(learner.strategy, len(data.class_names))
    learner.loop.on_predicted = confusion.add
    return confusion.take
