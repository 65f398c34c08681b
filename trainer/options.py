"""The options of a training run, each declared once, and checked before anything is read.

The flags of `shardmill train` and `shardmill doctor` follow from the fields of `TrainOptions`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foundation.errors import UsageError
from foundation.options import Limits, check_choice, check_declared, flag_of, option
from foundation.storage import READ_ONLY, Place, local_place_of, place_of, refuse_to_write
from foundation.wording import parse_size
from reader.options import KINDS, ReadOptions
from trainer.defaults import DEFAULTS, shown_default
from trainer.models import MODELS, MODELS_OF
from trainer.optimization import OPTIMIZERS, SCHEDULES
from trainer.precision import PRECISIONS
from trainer.strategies import ON_JAX, STRATEGIES, WITHOUT_JIT

# Where a run reads and writes is no part of what it is, and neither is how its work is spread over
# devices: options for that are declared with `identity=False`, and may differ when it is continued.
_NO_IDENTITY = {"identity": False}
BACKENDS = ("tensorflow", "jax")
MONITORS = ("loss", "accuracy")
_MAX_SEED = 2**32 - 1  # of NumPy, whose seed Keras sets too

_ONLY_ON_TENSORFLOW = (
    *("accumulate", "gpu_memory", "jit", "parameter_servers", "local_workers", "profile"),
    *("prune", "sync_batch_norm"),
)
_READ = {field.name: field for field in dataclasses.fields(ReadOptions)}


def _check_epochs(name: str, value: str) -> None:
    """Checks that a value is a list of epochs.

    Raises:
        UsageError: It is none.
    """
    numbers = value.split(",")
    if not all(number.strip().isdecimal() for number in numbers) or sorted(
        set(map(int, numbers))
    ) != list(map(int, numbers)):
        raise UsageError(f"{name} is {value!r}. Pass growing numbers of epochs, such as 30,60,80.")


def profiled_steps(name: str, value: str) -> tuple[int, int]:
    """The numbers in a value of --profile, which messages call `name`.

    Raises:
        UsageError: They are not growing numbers of steps.
    """
    first, _, end = value.partition(":")
    if not (first.isdecimal() and end.isdecimal() and int(first) < int(end)):
        raise UsageError(
            f"{name} is {value!r}. Pass growing numbers of steps, such as 100:110 for the ten "
            "from step 100, counted from 0."
        )
    return int(first), int(end)


def mesh_sizes(name: str, value: str) -> dict[str, int]:
    """Sizes of the axes "data" and "model" in a value of --mesh, which messages call `name`.

    Raises:
        UsageError: They are none.
    """
    pairs = [part.partition("=")[::2] for part in value.split(",")]
    known = all(axis in ("data", "model") and n.isdecimal() and int(n) for axis, n in pairs)
    if not known or len(dict(pairs)) < len(pairs):
        raise UsageError(f"{name} is {value!r}. Pass sizes of two axes, such as data=2,model=4.")
    return {"data": 1, "model": 1} | {axis: int(size) for axis, size in pairs}


def _read_option(name: str, *, by_kind: bool = False, **changes: Any) -> Any:
    """An option of `reader.load`, with its declaration.

    Args:
        name: Name of the option.
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
        run_dir: Directory for checkpoints, history, TensorBoard files and the trained model; or a
            URL, see `trainer.checkpointing.remote_run`.
        train_split: Split to train on.
    """

    data: Place = dataclasses.field(metadata=_NO_IDENTITY)
    run_dir: Place = dataclasses.field(metadata=_NO_IDENTITY)
    label: str | None = _read_option(
        "label", help="Label to train on, by name.", metavar="NAME", type=str
    )
    model: str | None = option(
        None, "A model by name, or package.module:function.", shown=shown_default("model")
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
        type=int,
        limits=Limits(1),
        shown=shown_default("epochs"),
    )
    accumulate: int = option(
        1,
        "Parts into which each device divides its share of a batch, to save memory: the step is "
        "that of the whole batch.",
        limits=Limits(1),
        identity=False,
    )
    optimizer: str = option("adamw", "Optimizer.", choices=tuple(OPTIMIZERS))
    learning_rate: float | None = option(
        None,
        "Peak learning rate, reached after the warm-up.",
        type=float,
        limits=Limits(0, excluded=(0,)),
        shown=shown_default("learning_rate"),
    )
    warmup_epochs: float | None = option(
        None,
        "Epochs over which the learning rate grows from 0.",
        type=float,
        limits=Limits(0),
        shown=shown_default("warmup_epochs"),
        excludes={"--schedule one_cycle": "does not apply to a cycle, which rises for 30 %"},
    )
    clip_norm: float | None = option(
        None,
        "Greatest norm of the gradient of a step; a greater one is scaled down to it.",
        type=float,
        limits=Limits(0, excluded=(0,)),
    )
    schedule: str = option(
        "cosine",
        "Learning rate after the warm-up: down to 0 along a cosine, divided by 10 in steps, "
        "constant; or one cycle with a rise of its own.",
        choices=tuple(SCHEDULES),
    )
    decay_epochs: str | None = option(
        None,
        "With --schedule step: epochs after which the learning rate is divided by 10.",
        "N,N,...",
        shown="after 1/3, 2/3 and 8/9 of all",
        check=_check_epochs,
        excludes={
            f"--schedule {name}": "is for --schedule step" for name in SCHEDULES if name != "step"
        },
    )
    weight_decay: float = option(0.05, "Decoupled weight decay of kernels.", limits=Limits(0))
    label_smoothing: float = option(
        0.0,
        "Share of the target that is spread over all classes.",
        limits=Limits(0, 1, excluded=(1,)),
    )
    class_weights: bool = option(False, "Weigh the loss by the class weights of the manifest.")
    ema: float | None = option(
        None,
        "Share that stays at a step in a moving average of the weights, which is validated and "
        "saved in their place.",
        type=float,
        limits=Limits(0, 1, excluded=(0, 1)),
    )
    prune: float | None = option(
        None,
        "Share of the weights of kernels that are 0 in the end; zeros grow from 20 to 70 % of the "
        "steps.",
        type=float,
        limits=Limits(0, 1, excluded=(0, 1)),
    )
    weights: Path | None = option(
        None,
        "A .keras or .h5 file of the same network to start from; its head is left out where the "
        "classes are others.",
        "FILE",
        type=Path,
    )
    freeze: bool = option(False, "Train the head only: the last layer with weights.")
    head_epochs: int | None = option(
        None,
        "Epochs of a first phase that trains the head only, in a run of its own in RUN/head; "
        "--epochs of the whole network follow.",
        type=int,
        limits=Limits(1),
        excludes={"--freeze": "is followed by a phase that trains all layers"},
    )
    head_learning_rate: float | None = option(
        None,
        "Peak learning rate of that phase.",
        type=float,
        limits=Limits(0, excluded=(0,)),
        shown="that of --learning-rate",
    )
    precision: str = option("auto", "Dtype policy of Keras.", choices=PRECISIONS)
    strategy: str = option(
        "default",
        "One device, all GPUs of this machine, with all layers on each or some on each, or several "
        "processes and machines, in step or, with parameter servers, each at its own speed.",
        choices=tuple(STRATEGIES),
        identity=False,
    )
    backend: str = option(
        "tensorflow",
        "What Keras computes with. JAX is for images and packed sequences, on one device or with "
        "--strategy model_parallel.",
        choices=BACKENDS,
    )
    mesh: str | None = option(
        None,
        "With --strategy model_parallel, numbers of devices that batches and that weights are "
        "divided among.",
        metavar="data=N,model=N",
        check=mesh_sizes,
        identity=False,
    )
    layout: Path | None = option(
        None,
        "With --strategy model_parallel, a regular expression of weights and the dimension that "
        "is divided on every line.",
        "FILE",
        type=Path,
        shown="attention by heads, others by their outputs",
        identity=False,
    )
    stages: int | None = option(
        None,
        "With --strategy pipeline, devices that the layers of a model are divided among.",
        type=int,
        limits=Limits(1, 4096),
        shown="the number of devices",
        identity=False,
    )
    microbatches: int | None = option(
        None,
        "With --strategy pipeline, parts of a batch, which are in several stages at once.",
        type=int,
        limits=Limits(1, 4096),
        shown="up to 4 for each stage",
        identity=False,
    )
    recompute: bool = option(
        False,
        "With --strategy pipeline, compute activations again in the backward pass: less memory, "
        "more time.",
        identity=False,
    )
    place: Path | None = option(
        None,
        "With --strategy pipeline, the stage of every layer, like the file stages.txt of a run.",
        "FILE",
        type=Path,
        shown="measured, for equal shares of time and memory",
        identity=False,
    )
    sync_batch_norm: bool | None = option(
        None,
        "Take mean and variance in batch normalization from the whole batch, or from each device's "
        "part of it. The first is not for --accumulate, --jit and parameter servers.",
        type=bool,
        shown="from the whole batch where that is possible, for models with a name",
    )
    local_workers: int | None = option(
        None,
        "Train with so many processes on this machine, by --strategy multi_worker.",
        type=int,
        limits=Limits(1, 4096),
        identity=False,
    )
    parameter_servers: int | None = option(
        None,
        "With --local-workers, keep the variables in so many further processes, by --strategy "
        "parameter_server.",
        type=int,
        limits=Limits(1, 4096),
        identity=False,
    )
    restarts: int = option(
        0,
        "With --local-workers, how often they start again after one was lost.",
        limits=Limits(0),
        identity=False,
    )
    worker_timeout: float = option(
        30.0,
        "With several workers, seconds of silence after which one is lost and the others end.",
        metavar="S",
        limits=Limits(1, 86400),
        identity=False,
    )
    worker_start_timeout: float = option(
        600.0,
        "With several workers, seconds that they wait for each other to start.",
        metavar="S",
        limits=Limits(1, 604800),
        identity=False,
    )
    augment: str | None = _read_option("augment", by_kind=True)
    normalize: str = _read_option(
        "normalize",
        help="Normalization of the pixels, for a model of your own: none, zscore or minmax.",
    )
    train_split: str = option("train", "Split to train on.")
    validation_split: str = option(
        "auto", "Split to validate on; auto is validation if there is one, none skips it."
    )
    where: str | None = _read_option(
        "where",
        help="Train only on records that fit a condition on the columns of the index. Validation "
        "takes all records of its split.",
        excludes={"--class-weights": "selects records, and the weights are those of all"},
    )
    monitor: str = option(
        "loss",
        "Measure of the validation that makes an epoch the best one, which best.keras keeps.",
        choices=MONITORS,
    )
    patience: int | None = option(
        None, "Stop after N epochs without improvement.", type=int, limits=Limits(1), identity=False
    )
    seed: int = option(
        0, "Seed of weights, order, augmentation and dropout.", limits=Limits(0, _MAX_SEED)
    )
    cache: str = _read_option("cache", identity=False)
    cache_stage: str = _read_option("cache_stage", identity=False)
    cache_dir: Path | None = _read_option("cache_dir", identity=False)
    cache_limit: str | None = _read_option("cache_limit", limits=None, identity=False)
    on_corrupt: str = _read_option("on_corrupt", identity=False)
    generation: int | None = _read_option("generation", identity=False)  # in the root hash
    keep_checkpoints: int = option(
        2, "Number of checkpoints to keep.", limits=Limits(1), identity=False
    )
    checkpoint_minutes: float = option(
        10.0,
        "Minutes between checkpoints within an epoch; 0 for checkpoints between epochs only.",
        limits=Limits(0),
        identity=False,
    )
    deterministic: bool = option(
        False,
        "Use deterministic kernels only (slower on GPUs; CPUs always do). The wait for input is "
        "then not measured.",
        identity=False,
    )
    jit: bool = option(
        False,
        "Compile the forward and the backward pass with XLA; not for token ids, whose batches have "
        "many lengths.",
        excludes={
            f"--strategy {name}": "does not work under that strategy"
            for name in sorted(WITHOUT_JIT)
        },
        identity=False,
    )
    intra_op_threads: int | None = option(
        None,
        "Threads of TensorFlow within an operation.",
        type=int,
        limits=Limits(1, 4096),
        shown="one per core",
        identity=False,
    )
    inter_op_threads: int | None = option(
        None,
        "Operations that TensorFlow runs at the same time.",
        type=int,
        limits=Limits(1, 4096),
        shown="one per core",
        identity=False,
    )
    gpu_memory: str | None = option(
        None,
        "Memory to take of each GPU, at once, such as 20GiB.",
        metavar="SIZE",
        check=parse_size,
        shown="as much as is needed, when it is needed",
        identity=False,
    )
    device_memory: str | None = option(
        None,
        "Refuse to train what is estimated to need more memory of a device, such as 20GiB.",
        metavar="SIZE",
        check=parse_size,
        shown="not estimated",
        identity=False,
    )
    sample_predictions: int = option(
        16,
        "Validation examples whose predictions are shown; 0 for none.",
        limits=Limits(0, 100),
        identity=False,
    )
    profile: str | None = option(
        None,
        "Write a trace of the steps [START, STOP) of the run, counted from 0, for TensorBoard.",
        metavar="START:STOP",
        check=profiled_steps,
        identity=False,
    )
    metrics_port: int | None = option(
        None,
        "Serve metrics for Prometheus at that port while training; 0 for any that is free.",
        metavar="P",
        type=int,
        limits=Limits(0, 65535),
        identity=False,
    )
    metrics_host: str = option(
        "127.0.0.1",
        "Address that --metrics-port listens on; 0.0.0.0 for all of this machine.",
        metavar="ADDRESS",
        identity=False,
    )

    def __post_init__(self) -> None:
        # Callers may pass strings; every path below is a Path, or a Url.
        object.__setattr__(self, "data", place_of(self.data))
        object.__setattr__(self, "run_dir", place_of(self.run_dir))
        if str(self.run_dir).startswith(READ_ONLY):
            refuse_to_write(self.run_dir, "--run-dir ")
        object.__setattr__(self, "weights", self.weights and local_place_of(self.weights))
        object.__setattr__(self, "place", self.place and local_place_of(self.place))
        object.__setattr__(self, "layout", self.layout and local_place_of(self.layout))
        check_declared(self, name_of=flag_of)
        if self.model is not None and ":" not in self.model:
            check_choice("--model", self.model, [*MODELS, "package.module:function"], "")
            self._require_no_normalization(self.model)
        obstacle = self.obstacle_to_sync_batch_norm
        if self.sync_batch_norm and obstacle:
            raise UsageError(
                f"--sync-batch-norm sums over all devices within the model, which {obstacle} does "
                "not allow. Leave one of them out."
            )
        self._require_pipeline()
        self._require_jax()
        if self.head_learning_rate is not None and self.head_epochs is None:
            raise UsageError(
                "--head-learning-rate is for a first phase that trains the head. Pass "
                "--head-epochs too."
            )

    def _require_pipeline(self) -> None:
        """Checks that options of stages come with the strategy that has some, and parts with none.

        Raises:
            UsageError: They do not.
        """
        if self.strategy == "pipeline":
            if self.accumulate > 1:
                raise UsageError(
                    f"--accumulate {self.accumulate} does not apply to --strategy pipeline, which "
                    "adds up gradients of parts of a batch anyway. Pass --microbatches instead."
                )
            return
        for name in ("stages", "microbatches", "recompute", "place"):
            if getattr(self, name):
                raise UsageError(
                    f"{flag_of(name)} is for --strategy pipeline, and --strategy is "
                    f"{self.strategy}. Pass --strategy pipeline, or leave it out."
                )

    def _require_jax(self) -> None:
        """Checks that options go with the backend.

        Raises:
            UsageError: They do not.
        """
        divides = self.strategy == "model_parallel"
        if divides and (self.backend != "jax" or self.mesh is None):
            raise UsageError(
                "--strategy model_parallel is one of JAX with a mesh of devices. Pass --backend "
                "jax --mesh data=N,model=N too."
            )
        for name in ("mesh", "layout"):
            if getattr(self, name) is not None and not divides:
                raise UsageError(
                    f"{flag_of(name)} is for --strategy model_parallel. Pass it too, or leave "
                    f"{flag_of(name)} out."
                )
        if self.backend == "tensorflow":
            return
        if self.strategy not in ON_JAX:
            raise UsageError(
                f"--strategy {self.strategy} is one of TensorFlow. Leave it or --backend jax out, "
                "or pass --strategy model_parallel --mesh data=N,model=N."
            )
        for name in _ONLY_ON_TENSORFLOW:
            if getattr(self, name) != self.__dataclass_fields__[name].default:
                raise UsageError(
                    f"{flag_of(name)} is for TensorFlow. Leave it or --backend jax out."
                )

    @property
    def obstacle_to_sync_batch_norm(self) -> str | None:
        """The option with which devices cannot exchange sums within the model, if one is given.

        tf.distribute sums outside of loops and of what XLA compiles only. Workers of parameter
        servers share no batch: each takes a whole one, and its statistics.
        """
        if self.strategy in ("parameter_server", "pipeline"):
            return f"--strategy {self.strategy}"
        if self.jit:
            return "--jit"
        return "--accumulate" if self.accumulate > 1 else None

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
        compiled = "--jit" if self.jit else "--backend jax"
        if kind == "tokens" and (self.jit or self.backend == "jax"):
            raise UsageError(
                f"{compiled} needs batches of one shape, and token ids come in batches of many "
                "lengths, each of which would be compiled. Leave it out, or build the set with "
                "--pack for a language model."
            )
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
            f"{flag_of(name)} {value} does not apply to {KINDS[kind]} in {self.data}: it is for "
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
        values = self.as_json()
        return {f.name: values[f.name] for f in dataclasses.fields(self) if is_identity(f)}

    def as_json(self) -> dict[str, object]:
        """All options, paths as text."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        plain = (bool, int, float, str, type(None))
        return {k: value if isinstance(value, plain) else str(value) for k, value in values.items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(TrainOptions):
    """Options with all defaults filled in, of a run in a local directory; see TrainOptions."""

    run_dir: Path = dataclasses.field(metadata=_NO_IDENTITY)
    model: str
    batch_size: int
    epochs: int
    learning_rate: float
    warmup_epochs: float
    augment: str


def default_identity() -> dict[str, object]:
    """What the identity of a run was of which an earlier version did not know all options."""
    return {
        field.name: field.default
        for field in dataclasses.fields(TrainOptions)
        if is_identity(field) and field.default is not dataclasses.MISSING
    }


def flags_of(values: Mapping[str, object]) -> dict[str, str]:
    """Flags of `shardmill train` for values by field: {"--freeze": "", "--epochs": "3"}."""
    defaults = {field.name: field.default for field in dataclasses.fields(TrainOptions)}
    flags = {}
    for name, value in values.items():
        if value is True:
            flags[flag_of(name)] = ""
        elif value is not False and value is not None:
            flags[flag_of(name)] = str(value)
        elif value is False and defaults[name] is None:
            flags[flag_of(f"no_{name}")] = ""
    return flags


def is_identity(field: dataclasses.Field[Any]) -> bool:
    """Whether a run with another value of an option is another run."""
    return bool(field.metadata.get("identity", True))
