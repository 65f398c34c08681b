"""Writes samples/dataflow/flex-template.json from the options: `python docs/make_flex_template.py`.

It is the metadata of a flex template: a form in Google's console asks for these parameters, and
checks them before a machine is started.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from beam_jobs.options import OPTIONS
from beam_jobs.options.values import FILE, FILES, FOLDER, SIZE
from foundation.options import declared

PAGE = Path(__file__).parents[1] / "samples" / "dataflow" / "flex-template.json"
_URL = r"(gs|s3|abfs|abfss)://[^ ]+"
_JOBS = [options.COMMAND for options in OPTIONS.values()]

# Of the local engine, and of a launcher that waits for the job.
WITHOUT = {"workers", "worker_type", "overwrite", "append", "new_classes"}
# Dataflow has an option of this name: labels of the job.
RENAMED = {"labels": "labels_table"}


def page() -> str:
    """The content of flex-template.json."""
    parameters = [
        _parameter("job", f"The kind of records: {' or '.join(_JOBS)}.", "|".join(_JOBS)),
        _parameter("sources", "URLs of the corpus, with spaces between them.", f"{_URL}( {_URL})*"),
        _parameter("out", "URL of the new shard set.", _URL),
    ]
    fields: dict[str, list[dataclasses.Field[Any]]] = {}
    for options in OPTIONS.values():
        for field in declared(options):
            fields.setdefault(field.name, []).append(field)
    for name, same in fields.items():
        if name not in WITHOUT:
            only = "" if len(same) == len(OPTIONS) else f" For {_job_with(same[0])} alone."
            text = f"{same[0].metadata['help']}{only}"
            forms = dict.fromkeys(_regex(field) for field in same)
            regex = "" if "" in forms else "|".join(forms)
            parameters.append(_parameter(RENAMED.get(name, name), text, regex, optional=True))
    metadata = {
        "name": "shardmill",
        "description": "Turns raw image and text corpora into clean, shuffled TFRecord shards.",
        "parameters": parameters,
    }
    return json.dumps(metadata, indent=2) + "\n"


def _parameter(name: str, text: str, regex: str, *, optional: bool = False) -> dict[str, Any]:
    further: dict[str, Any] = {"isOptional": True} if optional else {}
    if regex:
        further["regexes"] = [f"^({regex})$"]
    return {"name": name, "label": name.replace("_", " "), "helpText": text, **further}


def _job_with(field: dataclasses.Field[Any]) -> str:
    return next(options.COMMAND for options in OPTIONS.values() if field in set(declared(options)))


def _regex(field: dataclasses.Field[Any]) -> str:
    """A pattern of every value, "" for any text; the job itself checks the rest."""
    metadata = field.metadata
    if metadata["type"] is bool:
        return "true|false"
    if metadata["type"] is int:
        return "[0-9]+"
    if metadata["type"] is float:
        return r"[0-9.]+"
    if metadata["form"] in (FILE, FOLDER):
        return _URL
    if metadata["form"] is FILES:
        return f"{_URL}(,{_URL})*"
    if metadata["form"] is SIZE:
        return r"[0-9.]+ ?[A-Za-z]*"
    return "|".join(metadata["choices"])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
