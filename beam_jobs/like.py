"""The options that another shard set was built with, for `shardmill preprocess --like SET`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from beam_jobs.options import PreprocessOptions
from foundation import storage
from foundation.options import check_value, declared
from foundation.storage import Place
from shard_format import InputError, UsageError, load_build, load_manifest, naming

# Files whose content has an effect on records, though their paths have none.
_FILES = {"tokenizer", "decontaminate", "score", "against", "against_action"}
# How SRC is read depends on SRC: a job like that of a folder may be one on an archive.
_OF_THE_CORPUS = {"source"}


def options_like(directory: Place, kind: type[PreprocessOptions]) -> dict[str, Any]:
    """The options of a set that have an effect on records, by field name.

    Args:
        directory: The set, of any version.
        kind: The options of the new job.

    Raises:
        InputError: The set does not say how it was built, or with an option that is not known.
        UsageError: It has records of another type.
    """
    manifest, where = load_manifest(directory), directory / naming.BUILD
    saved = load_build(directory).get("options")
    if not isinstance(saved, dict):
        where = directory / naming.MANIFEST
        saved = options_of_config(manifest.config)
    record_type = str(saved.get("record_type") or "")
    if record_type and record_type != kind.record_type:
        raise UsageError(
            f"--like {directory} has {record_type} records, and this job makes {kind.record_type} "
            f"records. Choose a set of {kind.record_type} records."
        )
    fields = {field.name: field for field in declared(kind)}
    unknown = sorted(saved.keys() - {field.name for field in dataclasses.fields(kind)})
    if not saved or unknown:
        lacks = f"has options that this version does not know: {', '.join(unknown)}"
        raise InputError(
            f"{where} {lacks if unknown else 'does not say how the set was built'}. Pass the "
            "options themselves, or a --config file."
        )
    without = (kind.without_effect() - _FILES) | _OF_THE_CORPUS
    values = {
        name: value
        for name, value in {**kind.absent(), **saved}.items()  # of a set from before these options
        if name in fields and name not in without and value is not None
    }
    for name in naming.TOKENIZERS.values():
        if "tokenizer" in values and storage.stat(directory / name):
            values["tokenizer"] = str(directory / name)  # its own copy: the original may be gone
    for name, value in values.items():
        check_value(fields[name], value, name, str(where))
    return values


def options_of_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a set without build.json, such as one of the first version.

    Empty for documents, and with scores: the manifest has cleaning and models as they were applied,
    not as they were asked for.
    """
    if config.get("record_type") != "image" or "score" in config:
        return {}
    values = dict(config)
    if isinstance(config.get("split"), dict):
        values["split"] = ",".join(f"{name}={share!r}" for name, share in config["split"].items())
    return values | {
        name: str(config[name]) for name in ("quality", "shard_size") if name in config
    }
