"""Everything a training run can be told, checked before anything is read."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Collection
from pathlib import Path

from shard_format.errors import UsageError
from trainer.defaults import DEFAULTS
from trainer.models import MODELS, MODELS_OF
from trainer.optimizers import OPTIMIZERS
from trainer.precision import PRECISIONS
from trainer.strategies import STRATEGIES

# What may differ when a run is continued: where things lie and how they are spread over devices
# has no part in what the run means. Everything else has.
CACHING = ("cache", "cache_stage", "cache_dir", "cache_limit")
FREE_TO_CHANGE = (
    "data",
    "run_dir",
    *CACHING,
    "keep_checkpoints",
    "checkpoint_minutes",
    "strategy",
    "deterministic",
)

# What sets of each kind are called in messages.
_CALLED = {"image": "pictures", "tokens": "token ids", "packed": "packed sequences"}


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """The options of one run.

    None stands for what `trainer.defaults` has for the kind of set that the run learns from.

    Attributes:
        data: Directory of the shard set.
        run_dir: Directory for checkpoints, history, TensorBoard files and the trained model.
        model: A name in `trainer.MODELS`, or package.module:function.
        image_size: Height and width of the pictures the model sees, in pixels; of pictures only.
        max_tokens: Documents are cut to that many tokens; of token ids only.
        buckets: Into how many groups of similar length the documents of some thousands are divided,
            so that batches need less padding; 1 is none; of token ids only.
        batch_size: Examples per step over all devices.
        epochs: Passes over the training split.
        optimizer: A name in `trainer.optimizers.OPTIMIZERS`.
        learning_rate: The peak, reached after the warm-up.
        warmup_epochs: Epochs over which the learning rate grows from 0; may be a fraction.
        weight_decay: Decoupled decay of kernels, times the learning rate, at every step.
        label_smoothing: Share of the target in [0, 1) that is spread over all classes.
        precision: float32, mixed_float16, mixed_bfloat16, or auto (see `trainer.precision`).
        strategy: A name in `trainer.STRATEGIES`.
        augment: Of the training examples, names with commas between them; the reader knows which
            there are, and checks it.
        normalize: "none", "zscore" or "minmax", as in `reader.load`, of training and validation
            pictures. Only for a model of your own: those with a name scale pixels themselves.
        train_split: Split to learn from.
        validation_split: Split to measure on after every epoch; "auto" is "validation" if it has
            records, else "test", else none; "none" is none.
        seed: Of the weights, the order, the augmentation and dropout.
        cache: Of the reader, which checks it; so are the next three.
        cache_stage: What a cache holds: "stored", or of pictures "decoded".
        cache_dir: Where copies lie; None is the user's cache directory.
        cache_limit: What that directory may hold, such as "200GB"; None is half of what is free.
        keep_checkpoints: How many of the latest checkpoints stay, at least 1.
        checkpoint_minutes: A checkpoint is written at the end of every epoch, and within one when
            the last is that old: what a kill may cost. 0 for none within epochs.
        deterministic: True to have TensorFlow choose only deterministic kernels. On a CPU equal
            runs are equal without it; on a GPU it costs speed. It holds for the whole process.
    """

    data: Path
    run_dir: Path
    model: str | None = None
    image_size: int | None = None
    max_tokens: int | None = None
    buckets: int | None = None
    batch_size: int | None = None
    epochs: int | None = None
    optimizer: str = "adamw"
    learning_rate: float | None = None
    warmup_epochs: float | None = None
    weight_decay: float = 0.05
    label_smoothing: float = 0.0
    precision: str = "auto"
    strategy: str = "default"
    augment: str | None = None
    normalize: str = "none"
    train_split: str = "train"
    validation_split: str = "auto"
    seed: int = 0
    cache: str = "auto"
    cache_stage: str = "stored"
    cache_dir: Path | None = None
    cache_limit: str | None = None
    keep_checkpoints: int = 2
    checkpoint_minutes: float = 10.0
    deterministic: bool = False

    def __post_init__(self) -> None:
        # A command line hands in strings; every path below is a Path.
        object.__setattr__(self, "data", Path(self.data))
        object.__setattr__(self, "run_dir", Path(self.run_dir))
        if self.model is not None and ":" not in self.model:
            _require_choice("--model", self.model, MODELS, " or package.module:function")
            self._require_no_normalization(self.model)
        _require_choice("--optimizer", self.optimizer, OPTIMIZERS)
        _require_choice("--precision", self.precision, PRECISIONS)
        _require_choice("--strategy", self.strategy, STRATEGIES)
        for name in (
            "image_size",
            "max_tokens",
            "buckets",
            "batch_size",
            "epochs",
            "keep_checkpoints",
        ):
            value = getattr(self, name)
            _require_count(name, value)
            _require(name, value, value is None or value >= 1, "be at least 1")
        rate = self.learning_rate
        sound = rate is None or (math.isfinite(rate) and rate > 0)
        _require("learning_rate", rate, sound, "be above 0 and finite")
        decay = self.weight_decay
        _require("weight_decay", decay, math.isfinite(decay) and decay >= 0, "be at least 0")
        smoothing = self.label_smoothing
        _require("label_smoothing", smoothing, 0 <= smoothing < 1, "lie in [0, 1)")
        warmup = self.warmup_epochs
        sound = warmup is None or (math.isfinite(warmup) and warmup >= 0)
        _require("warmup_epochs", warmup, sound, "be at least 0")
        minutes = self.checkpoint_minutes
        sound = math.isfinite(minutes) and minutes >= 0
        _require("checkpoint_minutes", minutes, sound, "be at least 0 and finite")
        # The range of numpy's seed, which Keras sets beside its own.
        _require_count("seed", self.seed)
        _require("seed", self.seed, 0 <= self.seed < 2**32, "lie in [0, 2**32)")

    def settled(self, kind: str) -> Settings:
        """These options with the defaults of a kind of set filled in.

        Args:
            kind: One of `trainer.defaults.DEFAULTS`.

        Raises:
            UsageError: An option, or the model, is for sets of another kind.
        """
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for name, value in dataclasses.asdict(DEFAULTS[kind]).items():
            if value is None and given[name] is not None:
                meant = next(k for k, d in DEFAULTS.items() if getattr(d, name) is not None)
                raise UsageError(
                    f"--{name.replace('_', '-')} is for sets of {_CALLED[meant]}, got "
                    f"{given[name]} for {_CALLED[kind]} in {self.data}. Leave it out."
                )
            if given[name] is None:
                given[name] = value
        if kind != "image" and self.normalize != "none":
            raise UsageError(
                f"--normalize is for sets of pictures, got {self.normalize} for {_CALLED[kind]} in "
                f"{self.data}. Leave it out."
            )
        if given["model"] in MODELS and given["model"] not in MODELS_OF[kind]:
            raise UsageError(
                f"a model for {_CALLED[kind]} must be one of {', '.join(MODELS_OF[kind])} or "
                f"package.module:function, got --model {self.model} for {self.data}. Leave --model "
                "out, or pass one of these."
            )
        if given["model"] in MODELS:
            self._require_no_normalization(str(given["model"]))
        return Settings(**given)

    def _require_no_normalization(self, model: str) -> None:
        if self.normalize != "none":
            raise UsageError(
                f"--normalize needs a model of your own, for those with a name scale pixels in "
                f"[0, 255] themselves, got --normalize {self.normalize} with --model {model}. "
                "Leave it out, or pass --model package.module:function."
            )

    def identity(self) -> dict[str, object]:
        """The options that make a run what it is, JSON-able: equal ones may continue each other."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in FREE_TO_CHANGE
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(TrainOptions):
    """Options in which nothing is left open; see TrainOptions."""

    model: str
    batch_size: int
    epochs: int
    learning_rate: float
    warmup_epochs: float
    augment: str


def _require(name: str, value: object, holds: bool, rule: str) -> None:
    if not holds:
        flag = "--" + name.replace("_", "-")
        raise UsageError(f"{flag} must {rule}, got {value}. Pass another value.")


def _require_count(name: str, value: object) -> None:
    # A command line makes sure of it; bool is an int to Python.
    sound = value is None or (isinstance(value, int) and not isinstance(value, bool))
    _require(name, value, sound, "be a whole number")


def _require_choice(flag: str, value: str, choices: Collection[str], also: str = "") -> None:
    if value not in choices:
        close = difflib.get_close_matches(value, choices, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else "Pass one of these."
        raise UsageError(f"{flag} must be one of {', '.join(choices)}{also}, got {value!r}. {hint}")
