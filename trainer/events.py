"""Events of a run: the trainer prints nothing, its caller shows these."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Callable

from foundation.storage import Place
from trainer.baseline import Baseline


@dataclasses.dataclass(frozen=True)
class RunStarted:
    """The data and the model are ready, and training begins.

    Attributes:
        model: The value of --model.
        num_parameters: Weights of the model.
        precision: The Keras dtype policy, with auto resolved.
        strategy: The value of --strategy.
        num_replicas: Devices that each compute a share of every batch.
        first_epoch: The epoch to run next, counted from 1; above 1 when a run is continued.
        first_step: Steps of that epoch that are done; above 0 when it is continued within.
        epochs: The last epoch.
        steps_per_epoch: Steps of one epoch.
        num_train_records: Records of the training split.
        num_validation_records: Records of the validation split, 0 without one.
        validation_split: Name of that split; None without one.
        num_classes: Length of the model's output; of a language model the number of token ids.
        head_only: Whether all other layers are frozen.
        head_loaded: Whether the file with the weights to begin with had some for the head; None
            when no file was read.
        worker: Index of this process among those that train the model; 0 writes the files.
        num_workers: Processes that train the model.
        collectives: How several of them sum gradients, "RING" or "NCCL"; empty for one.
        num_parameter_servers: Processes that hold the variables; 0 if the workers do.
        batch_norm: What `trainer.models.batch_norm.statistics_of` returns of the model.
    """

    model: str
    num_parameters: int
    precision: str
    strategy: str
    num_replicas: int
    first_epoch: int
    first_step: int
    epochs: int
    steps_per_epoch: int
    num_train_records: int
    num_validation_records: int
    validation_split: str | None
    num_classes: int
    head_only: bool = False
    head_loaded: bool | None = None
    worker: int = 0
    num_workers: int = 1
    collectives: str = ""
    num_parameter_servers: int = 0
    batch_norm: str | None = None


@dataclasses.dataclass(frozen=True)
class ServerStarted:
    """This process serves the chief of a run: as a worker, or as a parameter server.

    Attributes:
        name: What messages call it.
        chief: What messages call the chief.
    """

    name: str
    chief: str


@dataclasses.dataclass(frozen=True)
class Notice:
    """Something that a person should know; the run continues, or ends with an error of its own.

    A worker that does not answer, or does so again; a checkpoint that was passed over; a directory
    that cannot be locked; a set that was compacted. It may come in another thread.

    Attributes:
        text: Fact, in words.
    """

    text: str


@dataclasses.dataclass(frozen=True)
class MetricsServed:
    """Metrics can be read from now on, until the run ends.

    Attributes:
        url: Where.
    """

    url: str


@dataclasses.dataclass(frozen=True)
class WorkersAwaited:
    """This worker waits for others to start.

    Attributes:
        missing: What messages call them; empty when all are there.
    """

    missing: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class StepsDone:
    """Some steps of an epoch are done.

    Attributes:
        epoch: Counted from 1.
        phase: "train" or "validation".
        step: Steps of this phase that are done.
        num_steps: Steps of this phase in all.
        loss: Mean over the examples of this phase so far.
        accuracy: Share of these examples that were predicted right, in [0, 1]; an example of a
            language model is a token.
    """

    epoch: int
    phase: str
    step: int
    num_steps: int
    loss: float
    accuracy: float


@dataclasses.dataclass(frozen=True)
class EpochDone:
    """One epoch, as history.json keeps it.

    Attributes:
        epoch: Counted from 1.
        loss: Mean over the training examples, each seen when its step was computed. An example of
            a language model is a token to be predicted.
        accuracy: Share of the training examples classified right, in [0, 1]; of multi-label
            examples, the share with every label right; None for a language
            model.
        val_loss: Mean over every validation example; None without a validation split.
        val_accuracy: Share of the validation examples classified right, in [0, 1], or None.
        learning_rate: Learning rate at the last step of the epoch.
        examples_per_second: Training records over the seconds of the training steps. The first
            epoch of a process holds the tracing of the graph too.
        loss_scale: Factor on the loss after the epoch; None unless mixed_float16.
        perplexity: e to the power of the loss of a language model (with the label smoothing that
            is in it); else None.
        token_accuracy: Share of the tokens that a language model predicts right, in [0, 1].
        val_perplexity: The same over every validation token, or None.
        val_token_accuracy: The same over every validation token, or None.
        tokens_per_second: Tokens that a language model predicted in training over these seconds.
        f1: F1 score, for examples with any number of labels, of all labels together
            (micro-averaged), in [0, 1]; else None.
        val_f1: The same over every validation example, or None.
        input_wait: Share of the seconds of the training steps in which the device waited for a
            batch, in [0, 1]; None in epochs of earlier versions.
        sparsity: Share of zeros in the kernels after the epoch with --prune, in [0, 1]; else None.
        wall_seconds: Seconds of the steps of training and validation, those before an interruption
            included; None in epochs of earlier versions. Loading, checkpoints and figures come on
            top.
        cpu_seconds: Processor seconds of this process in the same steps. Other workers, and
            services that read for it, are not in them; None like `wall_seconds`.
        skipped: Damaged records that this process has left out, with --on-corrupt skip, since it
            began, each counted once; 0 without.
    """

    epoch: int
    loss: float
    accuracy: float | None
    val_loss: float | None
    val_accuracy: float | None
    learning_rate: float
    examples_per_second: float
    loss_scale: float | None
    perplexity: float | None = None
    token_accuracy: float | None = None
    val_perplexity: float | None = None
    val_token_accuracy: float | None = None
    tokens_per_second: float | None = None
    f1: float | None = None
    val_f1: float | None = None
    input_wait: float | None = None
    sparsity: float | None = None
    wall_seconds: float | None = None
    cpu_seconds: float | None = None
    skipped: int = 0


@dataclasses.dataclass(frozen=True)
class StopAsked:
    """SIGTERM or Ctrl-C has come; the run stops after the steps at work, and is checkpointed.

    Attributes:
        number: The signal. Ctrl-C after it ends the run at once.
    """

    number: signal.Signals


@dataclasses.dataclass(frozen=True)
class RunDone:
    """The model is saved.

    Attributes:
        model_path: The trained model, a `.keras` file.
        seconds: Wall time of this process's part of the run.
    """

    model_path: Place
    seconds: float


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """What a finished run leaves.

    Attributes:
        run_dir: The directory of the run, or its URL.
        model_path: The trained model, a `.keras` file in it.
        history: Every epoch, also those of earlier processes.
        seconds: Wall time of this process's part of the run.
        best: The best epoch by --monitor; None without validation.
        best_path: The model of that epoch, a `.keras` file; None without validation.
        baseline: Accuracy on the validation split of always answering the most frequent class of
            training; None without validation, and where records do not have one label.
    """

    run_dir: Place
    model_path: Place
    history: tuple[EpochDone, ...]
    seconds: float
    best: EpochDone | None = None
    best_path: Place | None = None
    baseline: Baseline | None = None

    @property
    def final(self) -> EpochDone:
        """The last epoch."""
        return self.history[-1]


Event = (
    RunStarted
    | MetricsServed
    | WorkersAwaited
    | ServerStarted
    | Notice
    | StepsDone
    | EpochDone
    | StopAsked
    | RunDone
)
"""Something that happened in a run."""
OnEvent = Callable[[Event], None]
"""Function that is called with every event of a run."""


def ignore(event: Event) -> None:
    """Nobody listens."""
