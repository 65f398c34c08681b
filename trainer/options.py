"""The options of a training run, each declared once, and checked before anything is read.

The flags of `shardmill train` and `shardmill doctor` follow from the fields of `TrainOptions`.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from reader.options import KINDS, ReadOptions
from shard_format.errors import UsageError
from shard_format.options import Limits, check_choice, check_declared, option
from shard_format.storage import Place, place_of
from trainer.defaults import DEFAULTS, shown_default
from trainer.models import MODELS, MODELS_OF
from trainer.optimizers import OPTIMIZERS
from trainer.precision import PRECISIONS
from trainer.strategies import STRATEGIES

# What may differ when a run is continued: paths, and how work is spread over devices, are no part
# of what the run means. Everything else is.
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
_MAX_SEED = 2**32 - 1  # of NumPy, whose seed Keras sets too

_READ = {field.name: field for field in dataclasses.fields(ReadOptions)}


def _read_option(name: str, *, by_kind: bool = False, **changes: Any) -> Any:
    """An option of `reader.load`, with its declaration.

    Args:
        name: Of the option.
        by_kind: The default is that of `trainer.defaults` for the kind of set, None here.
        **changes: To the declaration.
    """
    metadata = {**_READ[name].metadata, **changes}
    if by_kind:
        metadata["shown"] = shown_default(name)
    default = None if by_kind else _READ[name].default
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """The options of one run, documented by their declarations.

    None is replaced by the value in `trainer.defaults` for the kind of set.

    Attributes:
        data: Directory of the shard set, or its URL.
        run_dir: Directory for checkpoints, history, TensorBoard files and the trained model.
        train_split: Split to train on.
    """

    data: Place
    run_dir: Path
    label: str | None = _read_option(
        "label", help="Label to train on, by name.", metavar="NAME", type=str
    )
    model: str | None = option(
        None,
        "A model by name, or package.module:function.",
        shown=shown_default("model"),
    )
    image_size: int | None = _read_option("image_size", by_kind=True)
    max_tokens: int | None = _read_option("max_tokens", by_kind=True)
    buckets: int | None = _read_option("buckets", by_kind=True)
    batch_size: int | None = _read_option(
        "batch_size", by_kind=True, help="Examples per step, over all devices."
    )
    epochs: int | None = option(
        None,
        "Passes over the training split.",
        metavar="N",
        type=int,
        limits=Limits(1),
        shown=shown_default("epochs"),
    )
    optimizer: str = option("adamw", "Optimizer.", choices=tuple(OPTIMIZERS))
    learning_rate: float | None = option(
        None,
        "Peak learning rate, reached after the warm-up.",
        metavar="X",
        type=float,
        limits=Limits(0, excluded=(0,)),
        shown=shown_default("learning_rate"),
    )
    warmup_epochs: float | None = option(
        None,
        "Epochs over which the learning rate grows from 0.",
        metavar="X",
        type=float,
        limits=Limits(0),
        shown=shown_default("warmup_epochs"),
    )
    weight_decay: float = option(
        0.05, "Decoupled weight decay of kernels.", metavar="X", type=float, limits=Limits(0)
    )
    label_smoothing: float = option(
        0.0,
        "Share of the target that is spread over all classes.",
        metavar="X",
        type=float,
        limits=Limits(0, 1, excluded=(1,)),
    )
    precision: str = option("auto", "Dtype policy of Keras.", choices=PRECISIONS)
    strategy: str = option(
        "default", "One device, or all GPUs of this machine.", choices=tuple(STRATEGIES)
    )
    augment: str | None = _read_option("augment", by_kind=True)
    normalize: str = _read_option(
        "normalize",
        help="Normalization of the pixels, for a model of your own: none, zscore or minmax.",
    )
    train_split: str = "train"
    validation_split: str = option(
        "auto", "Split to validate on; auto is validation or else test, none skips it."
    )
    seed: int = option(
        0,
        "Seed of weights, order, augmentation and dropout.",
        metavar="N",
        type=int,
        limits=Limits(0, _MAX_SEED),
    )
    cache: str = _read_option("cache")
    cache_stage: str = _read_option("cache_stage")
    cache_dir: Path | None = _read_option("cache_dir")
    cache_limit: str | None = _read_option("cache_limit", limits=None)
    keep_checkpoints: int = option(
        2, "Number of checkpoints to keep.", metavar="N", type=int, limits=Limits(1)
    )
    checkpoint_minutes: float = option(
        10.0,
        "Minutes between checkpoints within an epoch; 0 for checkpoints between epochs only.",
        metavar="X",
        type=float,
        limits=Limits(0),
    )
    deterministic: bool = option(
        False, "Use deterministic kernels only (slower on GPUs; CPUs always do).", type=bool
    )

    def __post_init__(self) -> None:
        # Callers may pass strings; every path below is a Path, or a Url.
        object.__setattr__(self, "data", place_of(self.data))
        object.__setattr__(self, "run_dir", Path(self.run_dir))
        check_declared(self, name_of=_flag)
        if self.model is not None and ":" not in self.model:
            check_choice("--model", self.model, [*MODELS, "package.module:function"], "")
            self._require_no_normalization(self.model)

    def settled(self, kind: str) -> Settings:
        """These options with the defaults for a kind of set filled in.

        Args:
            kind: One of `trainer.defaults.DEFAULTS`.

        Raises:
            UsageError: An option, or the model, is for sets of another kind.
        """
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for name, value in dataclasses.asdict(DEFAULTS[kind]).items():
            if value is None and given[name] is not None:
                raise self._not_for(name, given[name], kind)
            if given[name] is None:
                given[name] = value
        if kind != "image" and self.normalize != "none":
            raise self._not_for("normalize", self.normalize, kind)
        if given["model"] in MODELS and given["model"] not in MODELS_OF[kind]:
            raise UsageError(
                f"--model {self.model} is not for {KINDS[kind]}, which {self.data} holds. Leave it "
                f"out, or pass one of {', '.join(MODELS_OF[kind])} or package.module:function."
            )
        if given["model"] in MODELS:
            self._require_no_normalization(str(given["model"]))
        return Settings(**given)

    def _not_for(self, name: str, value: object, kind: str) -> UsageError:
        """The error that an option does not apply to this kind of set."""
        meant = " and ".join(KINDS[kind] for kind in _READ[name].metadata["kinds"])
        return UsageError(
            f"{_flag(name)} {value} does not apply to {KINDS[kind]} in {self.data}: it is for "
            f"{meant}. Leave it out."
        )

    def _require_no_normalization(self, model: str) -> None:
        if self.normalize != "none":
            raise UsageError(
                f"--normalize {self.normalize} does not work with --model {model}: the models "
                "with a name scale pixels themselves. Leave it out, or pass --model "
                "package.module:function."
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
    """Options with all defaults filled in; see TrainOptions."""

    model: str
    batch_size: int
    epochs: int
    learning_rate: float
    warmup_epochs: float
    augment: str


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
