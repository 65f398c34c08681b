"""`shardmill train`: a Keras model on a shard set."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli import ending
from cli.config_file import config_options, save
from cli.options import click_options
from cli.places import PLACE
from foundation.processes.signals import exit_now
from foundation.storage import Place
from trainer.events import (
    EpochDone,
    MetricsServed,
    Notice,
    RunStarted,
    ServerStarted,
    StepsDone,
    StopAsked,
    WorkersAwaited,
)
from trainer.launching import is_launched, strategy_to_launch
from trainer.options import TrainOptions
from trainer.strategies import SEVERAL_WORKERS

if TYPE_CHECKING:
    from cli.console import Bars
    from trainer import TrainResult


@click.command()
@click.argument("directory", metavar="DIR", type=PLACE)
@click.option(
    "--run-dir",
    type=PLACE,
    metavar="RUN",
    help="Directory for checkpoints, logs and model, or its URL (default: DIR-run next to DIR; of "
    "a URL, NAME-run here).",
)
@click_options(TrainOptions)
@config_options(TrainOptions, {"directory": str, "run_dir": str})
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the memory that a device needs, estimated and measured, and what needs less; write "
    "nothing.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def train(
    directory: Place,
    run_dir: Place | None,
    dry_run: bool,
    as_json: bool,
    save_config: str | None,
    **values: Any,
) -> None:
    """Train a Keras model on a shard set.

    The model predicts the class of images and of token ids, or any number of classes where records
    have any number of labels, and the next token of packed sequences. Raw text has to be stored as
    token ids first.

    An interrupted run resumes at its last checkpoint when the same command is run again, and ends
    with the same weights as an uninterrupted one. On SIGTERM (preemption) and on Ctrl-C it finishes
    its step, writes a checkpoint and exits with 143 or 130; a second Ctrl-C ends it at once.

    \b
    Examples:
      shardmill train set --model small_cnn --epochs 20
      shardmill train reviews --max-tokens 400
      shardmill train books --model causal_transformer --epochs 3
      shardmill train set --model resnet50 --image-size 224 --batch-size 256 --strategy mirrored
      shardmill train set --batch-size 256 --accumulate 8 --clip-norm 1 --ema 0.999
      shardmill train set --prune 0.5
      shardmill train set --model resnet50 --image-size 224 --weights resnet50.h5 --freeze
      shardmill train set --model resnet50 --batch-size 256 --dry-run --device-memory 16GiB
      shardmill train set --profile 100:110 --metrics-port 9100
      shardmill train set --augment standard,rand_augment,random_erasing,cutmix
      shardmill train set --model mypackage.models:build --run-dir runs/1
      shardmill train s3://bucket/set --run-dir s3://bucket/runs/1
      shardmill train set --local-workers 2 --restarts 3
      shardmill train set --local-workers 4 --parameter-servers 1 --restarts 3
      shardmill train set --strategy multi_worker          on every machine, with TF_CONFIG
    """
    from shard_format import load_manifest

    load_manifest(directory)  # a wrong path is reported at once, not after TensorFlow was loaded
    if run_dir is None:
        run_dir = _default_run_dir(directory)
    options = TrainOptions(data=directory, run_dir=run_dir, **values)
    if save_config is not None:
        further = {"directory": str(directory), "run_dir": str(run_dir)}
        save(save_config, options, further, "shardmill train")
    if dry_run:
        strategy = strategy_to_launch(options) or options.strategy
        _show_memory(dataclasses.replace(options, strategy=strategy), as_json)
        return
    options = _launched(options)
    if options.strategy not in SEVERAL_WORKERS:
        train_model(options, as_json)
        return
    code: Any = 0
    try:
        train_model(options, as_json)
    except SystemExit as ended:
        code = ended.code
    # TensorFlow would wait for its heartbeats, up to 10 s, and for a worker that is missing.
    exit_now(code)


def _show_memory(options: TrainOptions, as_json: bool) -> None:
    """Prints the memory that a training would need of its devices."""
    from cli.console import Bars, native_noise_kept, print_json
    from cli.logs import quiet_tensorflow
    from cli.memory_outlook import outlook_as_json, print_outlook
    from trainer.devices import use_backend

    use_backend(options.backend)
    quiet_tensorflow()
    with native_noise_kept() as stderr, Bars(stderr) as bars:
        bars.update("load", 0, None, "", "the model and its steps")
        from trainer.memory.outlook import outlook

        shown = outlook(options)
    if as_json:
        print_json(outlook_as_json(shown))
    else:
        print_outlook(shown)


def _launched(options: TrainOptions) -> TrainOptions:
    """Returns the options of this process. That which launches the others does not return.

    Raises:
        UsageError: The options that start processes contradict each other.
        SystemExit: The processes that were started have ended.
    """
    strategy = strategy_to_launch(options)
    if strategy is None:
        return options
    if is_launched():
        return dataclasses.replace(options, strategy=strategy)
    from trainer.launching.launcher import launch

    program = [sys.executable, "-m", "cli.main", *sys.argv[1:]]
    launched = launch(options, strategy, program, functools.partial(click.echo, err=True))
    if launched.has_result:
        ending.object_was_printed()
    raise SystemExit(launched.exit_code)


def _default_run_dir(directory: Place) -> Path:
    if not isinstance(directory, Path):
        return Path(f"{directory.name}-run")
    resolved = directory.resolve()  # "." has no name of its own
    return resolved.with_name(f"{resolved.name}-run")


def train_model(options: TrainOptions, as_json: bool) -> TrainResult:
    """Trains with progress bars, and prints the results and the path of the model.

    Raises:
        SystemExit: SIGTERM or Ctrl-C came; the command that resumes is printed on stderr.
        KeyboardInterrupt: Ctrl-C came before the first step, or twice.
    """
    from cli.console import print_json, say
    from trainer import TrainingStopped

    try:
        result = _trained(options)
    except TrainingStopped as stopped:
        raise ending.stopped(stopped) from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt(where_it_resumes(options.run_dir)) from None
    final = result.final
    if as_json:
        print_json(
            {
                "run_dir": str(result.run_dir),
                "model": str(result.model_path),
                "best_model": result.best_path and str(result.best_path),
                "best_epoch": result.best and result.best.epoch,
                "epochs": len(result.history),
                "seconds": round(result.seconds, 3),
                "baseline": result.baseline and dataclasses.asdict(result.baseline),
                **dataclasses.asdict(final),
            }
        )
        return result
    _print_history(result)
    say(
        f"{_ended_early(result, options)}{_measured(final)}\n"
        f"{_baseline(result)}{_pruned(final)}"
        f"model      {result.model_path}\n"
        f"{_best(result)}"
        f"logs       tensorboard --logdir {result.run_dir / 'tensorboard'}"
        f"{_next(result, options)}"
    )
    return result


def where_it_resumes(run_dir: Place) -> str:
    """Where the same command resumes a run that was interrupted between checkpoints."""
    if not isinstance(run_dir, Path):
        return f"the same command resumes at the last checkpoint in {run_dir}, if there is one"
    from trainer.checkpointing.checkpoints import latest_progress
    from trainer.checkpointing.run_dir import CHECKPOINTS, HEAD
    from trainer.errors import place_text

    for phase in (run_dir, run_dir / HEAD):
        place = latest_progress(phase / CHECKPOINTS)
        if place.epochs_done or place.step:
            where = place_text(place.epochs_done, place.step)
            return f"the same command resumes at its last checkpoint, after {where}"
    return "no checkpoint was written yet; the same command begins again"


def _trained(options: TrainOptions) -> TrainResult:
    from cli.console import Bars, native_noise_kept
    from cli.logs import quiet_tensorflow
    from trainer.devices import use_backend

    use_backend(options.backend)
    quiet_tensorflow()
    with native_noise_kept() as stderr, Bars(stderr) as bars, _ended_by_sigterm(bars):
        with bars.ends_at_interrupt("nothing was trained; run the same command again"):
            bars.update("load", 0, None, "", "TensorFlow, the data and the model")
            from trainer import run

        return run.train(options, _Show(bars, options).draw)


def _ended_by_sigterm(bars: Bars) -> contextlib.AbstractContextManager[None]:
    """SIGTERM while nothing is to be saved ends the process at once, with a word."""
    from trainer.checkpointing.termination import exit_on_sigterm

    def say() -> None:
        command = shlex.join(["shardmill", *sys.argv[1:]])
        bars.say_at_the_end(
            "stopped by SIGTERM; nothing had to be saved. The same command resumes it",
            f"\n  {command}",
            128 + signal.SIGTERM,
        )

    return exit_on_sigterm(say)


def _measured(final: EpochDone) -> str:
    if final.val_loss is None:
        return "validation none: no split to measure on"
    if final.val_perplexity is not None:
        return f"validation perplexity {final.val_perplexity:.2f}, loss {final.val_loss:.3f}"
    if final.val_f1 is not None:
        return (
            f"validation F1 {final.val_f1:.1%}, {final.val_accuracy:.1%} with all labels right, "
            f"loss {final.val_loss:.3f}"
        )
    return f"validation {final.val_accuracy:.1%} right, loss {final.val_loss:.3f}"


def _next(result: TrainResult, options: TrainOptions) -> str:
    """A line with the command that measures the model, where a split is left for that."""
    from shard_format import load_manifest

    test = load_manifest(options.data, options.generation).splits.get("test")
    if test is None or not test.records or options.validation_split == "test":
        return ""
    return f"\nnext       {shlex.join(['shardmill', 'evaluate', str(result.run_dir)])}"


def _baseline(result: TrainResult) -> str:
    """A line on what always answering one class gives."""
    return f"baseline   {result.baseline.text}\n" if result.baseline else ""


def _pruned(final: EpochDone) -> str:
    """A line on a run with --prune."""
    if final.sparsity is None:
        return ""
    return f"sparsity   {final.sparsity:.1%} of the weights of kernels are 0\n"


def _ended_early(result: TrainResult, options: TrainOptions) -> str:
    """A line on a run that --patience ended."""
    best, count = result.best, len(result.history)
    if best is None or options.patience is None or count - best.epoch < options.patience:
        return ""
    return f"ended      after epoch {count}: none since epoch {best.epoch} was better\n"


def _best(result: TrainResult) -> str:
    """A line on the best epoch, if it is not the last."""
    if result.best is None or result.best.epoch == len(result.history):
        return ""
    measured = _measured(result.best).removeprefix("validation ")
    return f"best       {result.best_path}, epoch {result.best.epoch}: {measured}\n"


class _Show:
    """Draws the events of a run."""

    def __init__(self, bars: Bars, options: TrainOptions) -> None:
        self._bars = bars
        self._options = options
        self._steps_per_epoch = self._epochs = self._steps = 0
        self._note = self._stopping = ""
        self._stage = "train"

    @functools.singledispatchmethod
    def draw(self, event: object) -> None:
        """Draws an event; of the others there is nothing to see."""

    @draw.register
    def _(self, event: WorkersAwaited) -> None:
        waits = f"waits for {', '.join(event.missing)}" if event.missing else "forms a cluster"
        self._bars.update("load", 0, None, "", waits)

    @draw.register
    def _(self, event: MetricsServed) -> None:
        self._bars.note(f"metrics at {event.url}")

    @draw.register
    def _(self, event: Notice) -> None:
        self._bars.note(event.text)

    @draw.register
    def _(self, event: ServerStarted) -> None:
        self._bars.finish("load")
        self._bars.note(f"{event.name} serves {event.chief}")
        self._bars.rest()

    @draw.register
    def _(self, event: RunStarted) -> None:
        self._bars.finish("load")
        self._steps_per_epoch, self._epochs = event.steps_per_epoch, event.epochs
        self._note = f"{event.model}, {event.precision}, {event.num_train_records:,} records"
        self._note_workers(event)
        if event.batch_norm is not None:
            self._bars.note(
                "batch normalization takes the statistics of "
                f"{'the whole batch' if event.batch_norm == 'synchronized' else 'each device'}"
            )
        self._note_split(event.validation_split)
        if event.head_loaded is False:
            self._bars.note("the file with the weights has none for this head; it is trained")
        self._stage = "train head" if event.head_only else "train"
        self._draw_steps((event.first_epoch - 1) * event.steps_per_epoch + event.first_step)

    @draw.register
    def _(self, event: StepsDone) -> None:
        if event.phase == "train":
            self._note = f"epoch {event.epoch}/{self._epochs}, loss {event.loss:.3f}"
            self._draw_steps((event.epoch - 1) * self._steps_per_epoch + event.step)

    @draw.register
    def _(self, event: StopAsked) -> None:
        self._stopping = "; stopping, Ctrl-C ends it at once"
        self._draw_steps(self._steps)

    @draw.register
    def _(self, event: EpochDone) -> None:
        self._bars.line(_epoch_line(event, self._epochs))
        if event.val_loss is None:
            return
        if event.val_perplexity is not None:
            reached = f"val perplexity {event.val_perplexity:.2f}"
        elif event.val_f1 is not None:
            reached = f"val F1 {event.val_f1:.1%}"
        else:
            reached = f"val accuracy {event.val_accuracy:.1%}"
        self._note = f"epoch {event.epoch}/{self._epochs}, {reached}"
        self._draw_steps(event.epoch * self._steps_per_epoch)

    def _note_workers(self, event: RunStarted) -> None:
        """Says how several workers work together."""
        if event.num_parameter_servers:
            self._bars.note(
                f"workers: {event.num_workers}, each at its own speed; parameter servers: "
                f"{event.num_parameter_servers}, which hold the variables"
            )
        elif event.num_workers > 1:
            self._bars.note(
                f"worker {event.worker} of {event.num_workers}, {event.num_replicas} devices; "
                f"gradients are summed by {event.collectives}"
            )

    def _note_split(self, split: str | None) -> None:
        """Says on which records the best epoch is chosen, where that may surprise."""
        if split == "test":
            self._bars.note(
                "best.keras is chosen on the split test: measure it on records that are in neither "
                "split"
            )
        elif split is None and self._options.validation_split == "auto":
            self._bars.note(
                f"{self._options.data} has no split validation, and test is not used to choose a "
                "model: there is no validation and no best.keras. Build the set with --split "
                "train=0.8,validation=0.1,test=0.1, or pass --validation-split test"
            )

    def _draw_steps(self, steps: int) -> None:
        total = self._epochs * self._steps_per_epoch
        self._steps = steps
        self._bars.update(self._stage, steps, total, "steps", self._note + self._stopping)


def _epoch_line(epoch: EpochDone, epochs: int) -> str:
    """What stays on the screen of an epoch: "epoch 3/10: loss 0.412, ..."."""
    parts = [f"loss {epoch.loss:.3f}"]
    if epoch.val_loss is not None:
        parts.append(_measured(epoch))
    rate, unit = epoch.examples_per_second, "examples"
    if epoch.tokens_per_second is not None:
        rate, unit = epoch.tokens_per_second, "tokens"
    parts.append(f"{rate:,.0f} {unit}/s")
    if epoch.input_wait is not None:
        parts.append(f"{epoch.input_wait:.1%} of the time waiting for input")
    if epoch.skipped:
        noun = "record" if epoch.skipped == 1 else "records"
        parts.append(f"{epoch.skipped:,} damaged {noun} skipped")
    return f"epoch {epoch.epoch}/{epochs}: {'; '.join(parts)}"


_SHOWN_EPOCHS = 12  # enough to see a curve, few enough for a terminal


def _print_history(result: TrainResult) -> None:
    """Some epochs from first to last."""
    from cli.console import print_table, table

    predicts_tokens = result.final.perplexity is not None
    columns = (
        ("epoch", "loss", "perplexity", "val loss", "val perplexity", "tokens/s", "input wait")
        if predicts_tokens
        else ("epoch", "loss", "accuracy", "val loss", "val accuracy", "examples/s", "input wait")
    )
    rows = table("Epochs", *columns, right=columns)
    count = len(result.history)
    shown = sorted(
        {round(i * (count - 1) / max(1, _SHOWN_EPOCHS - 1)) for i in range(_SHOWN_EPOCHS)}
    )
    for epoch in [result.history[i] for i in shown if i < count]:
        rows.add_row(str(epoch.epoch), *_numbers(epoch))
    print_table(rows)


def _numbers(epoch: EpochDone) -> tuple[str, ...]:
    """The columns of an epoch behind its number."""
    if epoch.perplexity is None:
        values = (epoch.loss, epoch.accuracy, epoch.val_loss, epoch.val_accuracy)
        formats, rate = ("{:.3f}", "{:.1%}", "{:.3f}", "{:.1%}"), epoch.examples_per_second
    else:
        values = (epoch.loss, epoch.perplexity, epoch.val_loss, epoch.val_perplexity)
        formats = ("{:.3f}", "{:.2f}", "{:.3f}", "{:.2f}")
        rate = epoch.tokens_per_second or 0.0
    shown = (
        "" if value is None else form.format(value)
        for form, value in zip(formats, values, strict=True)
    )
    wait = "" if epoch.input_wait is None else f"{epoch.input_wait:.1%}"
    return (*shown, f"{rate:,.0f}", wait)
