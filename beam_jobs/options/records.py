"""The options of a job on records that a program of the user makes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from beam_jobs.options.base import PreprocessOptions
from beam_jobs.options.python_names import file_of_module, load_name, name_of
from beam_jobs.options.values import parse_features, parse_names
from foundation import storage
from foundation.options import Limits, flag_of, option, redeclared
from shard_format import UsageError
from shard_format.naming import FEATURES

_MODULE_COLON, _TFDS = ":", "tfds:"


@dataclasses.dataclass(frozen=True)
class RecordOptions(PreprocessOptions):
    """Options of a job on records from Python; see PreprocessOptions.

    Attributes:
        sources: "module:source", an object with items, read, schema and perhaps fingerprint; or
            nothing, where these are given here. Then the file of the module.
        items: Function that lists the work: yields paths, ids, ranges, or other values of JSON.
            Functions may be given themselves; they are kept as "module:name".
        read: Function of an item that yields its records, dictionaries with a value of every
            feature.
        schema: Forms by the name of a feature, {"image": "image", "boxes": "float32[*,4]"}; kept
            as "image:image,boxes:float32[*,4]".
        fingerprint: Function from an item to a text that is another one if its records are; None
            takes the item, and of a path the size and the time of change.
        arguments: What the functions get behind an item.
    """

    COMMAND: ClassVar[str] = "records"
    ABOUT: ClassVar[str] = """\
Turn what a Python program reads into a shard set.

--from names a folder that TensorFlow Datasets has prepared, tfds:DIR, or an object in an importable
module, which has the functions items() and read(item), and
schema, the form of every feature. items() lists what there is to read, such as paths or ranges;
read(item) yields records, dictionaries with a value of every feature, and may have the keys id,
label, group and split.

If the job is interrupted, run the same command again; it resumes after the units that are read.
Arguments after -- go to Apache Beam.

\b
Examples:
  shardmill preprocess records --from robot:episodes --out set --no-labels
  shardmill preprocess records --from sensors.log:days --out set --dedup-by values --workers 8
  shardmill preprocess records --from tfds:tensorflow_datasets/mnist/3.0.1 --out set
"""

    sources: tuple[str, ...] = ()
    out: str = ""
    record_type: str = "record"
    items: Any = ""
    read: Any = ""
    schema: Any = ""
    fingerprint: Any = ""
    arguments: tuple[str, ...] = ()
    name: str = redeclared(PreprocessOptions, "name", default="records")
    source: str = redeclared(
        PreprocessOptions, "source", default="python", choices=("python",), help="Always python."
    )
    dedup_by: str | None = option(
        None,
        "With --dedup exact: features by which records are equal.",
        "A,B,...",
        check=parse_names,
        shown="all of them",
    )
    read_limit: float = option(
        600.0,
        "Reject an item whose next record takes longer to read.",
        "SECONDS",
        type=float,
        limits=Limits(0.01, 1e6),
    )

    def __post_init__(self) -> None:
        if isinstance(self.sources, str):
            object.__setattr__(self, "sources", (self.sources,))
        source = self.sources[0] if len(self.sources) == 1 and not self.items else ""
        if source.startswith(_TFDS):
            self._take_tfds(source.removeprefix(_TFDS))
        elif _MODULE_COLON in source:
            self._take(source)
        for name in ("items", "read", "fingerprint"):
            object.__setattr__(self, name, name_of(name, getattr(self, name)))
        if not self.items or not self.read or not self.schema:
            raise UsageError(
                "A job on records needs items, read and schema. Pass them, or --from module:source "
                "with an object that has them."
            )
        if isinstance(self.schema, Mapping):
            text = ",".join(f"{name}:{form}" for name, form in self.schema.items())
            object.__setattr__(self, "schema", text)
        if not isinstance(self.schema, str):
            raise UsageError(
                f"schema is {type(self.schema).__name__}. Pass a dictionary, such as "
                '{"image": "image", "boxes": "float32[*,4]"}.'
            )
        parse_features("schema", self.schema)
        is_file = bool(self.sources) and (
            "://" in self.sources[0] or _MODULE_COLON not in self.sources[0]
        )
        if not self.base and not is_file:
            module = self.read.partition(_MODULE_COLON)[0]
            object.__setattr__(self, "sources", (file_of_module(module),))
        super().__post_init__()

    @override
    def _check_combinations(self) -> None:
        super()._check_combinations()
        for name in (
            *("labels", "keep_columns", "include", "exclude", "label_pattern"),
            *("id_column", "license_column"),
        ):
            if getattr(self, name, None) is not None:
                raise UsageError(
                    f"{flag_of(name)} is for files, and a program reads these records. Leave it "
                    "out; the program may say the same."
                )

    @property
    @override
    def has_groups(self) -> bool:
        return True  # a record may have the key

    def _take_tfds(self, folder: str) -> None:
        """Takes a data set of TensorFlow Datasets, with its splits and its label.

        Raises:
            InputError: It has features that no set can have.
        """
        from beam_jobs.corpus.tfds_builder import schema_of  # not for --help

        folder = storage.absolute(folder)
        schema, label = schema_of(folder)
        module = "beam_jobs.corpus.tfds_builder"
        values: dict[str, Any] = {
            "items": f"{module}:items",
            "read": f"{module}:read",
            "schema": schema,
            "arguments": (folder,),
            "sources": (f"{folder}/{FEATURES}",),
            "split": self.split or "column:split",
            "no_labels": self.no_labels or label is None,
            "multi_label": self.multi_label or (label is not None and bool(label.dims)),
        }
        for field, value in values.items():
            object.__setattr__(self, field, value)

    def _take(self, name: str) -> None:
        """Takes items, read and schema of an object in a module.

        Raises:
            UsageError: It is not there, or lacks one.
        """
        source = load_name(name)
        for field in ("items", "read", "schema"):
            if not hasattr(source, field):
                raise UsageError(f"--from {name} has no {field!r}. Add it.")
        values: dict[str, Any] = {one: f"{name}.{one}" for one in ("items", "read")}
        if getattr(source, "fingerprint", None) is not None:
            values["fingerprint"] = f"{name}.fingerprint"
        for field, value in {**values, "schema": source.schema}.items():
            object.__setattr__(self, field, value)

    def function(self, name: str) -> Callable[..., Any]:
        """One of the functions, loaded."""
        function: Callable[..., Any] = load_name(getattr(self, name), self.sources[0])
        return function
