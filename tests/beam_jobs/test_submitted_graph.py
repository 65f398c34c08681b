"""The graph that an engine gets: small elements, and functions that hold nothing but the job."""

from __future__ import annotations

import dataclasses
import re

import apache_beam as beam
import pytest
from apache_beam.internal import pickler
from apache_beam.portability.api import beam_runner_api_pb2

from beam_jobs import BuildShardSet, ImageOptions, TextOptions
from beam_jobs.options import PreprocessOptions
from beam_jobs.transform import RunWork

STAGES = ["ListUnits", "StageUnits", "PlanShards", "WriteShards", "Commit"]
SHUFFLED = {"SpreadUnits", "SpreadShards", "StartListUnits", "StartPlanShards", "StartCommit"}


@pytest.fixture(params=[ImageOptions, TextOptions])
def graph(request, samples, repository, tmp_path):
    """The proto of a pipeline that lists its corpus itself."""
    source = samples if request.param is ImageOptions else repository / "samples" / "banking"
    further = {} if request.param is ImageOptions else {"text_column": "text"}
    pipeline = beam.Pipeline()
    options = request.param((str(source),), str(tmp_path / "set"), **further)
    _ = pipeline | "BuildShardSet" >> BuildShardSet(options)
    return pipeline.to_runner_api()


def steps(graph):
    return graph.components.transforms.values()


def function_of(transform):
    payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
    return pickler.loads(payload.do_fn.payload)[0]


def test_nothing_is_shuffled_but_references(graph):
    grouped = {
        step.unique_name.split("/")[1] for step in steps(graph) if "group_by_key" in step.spec.urn
    }
    assert grouped == SHUFFLED


def test_the_functions_of_the_stages_hold_the_options_and_no_open_files(graph):
    fields_of = {}
    for step in steps(graph):
        stage = step.unique_name.removeprefix("BuildShardSet/")
        if stage in STAGES and step.spec.urn == "beam:transform:pardo:v1":
            fields = vars(function_of(step).work)
            fields_of[stage] = dict(fields)
    assert fields_of.keys() == set(STAGES)
    for fields in fields_of.values():
        options, run_id = fields.pop("_context").__reduce__()[1]
        assert isinstance(options, PreprocessOptions)
        assert re.fullmatch("[0-9a-f]{32}", run_id)
        for value in dataclasses.asdict(options).values():
            assert isinstance(value, str | int | float | bool | tuple | None)
        assert all(map(is_plain, fields.values())), fields


def is_plain(value):
    """Whether it is a number, or a tuple of such: what a merge may cost and hold."""
    return all(map(is_plain, value)) if isinstance(value, tuple) else isinstance(value, int | float)


def test_the_functions_are_those_of_the_installed_package(graph):
    """Pickled by name: workers import them, and need no main session."""
    for step in steps(graph):
        if step.spec.urn == "beam:transform:pardo:v1" and step.unique_name.count("/") == 1:
            function = function_of(step)
            assert type(function) is RunWork
            assert type(function.work).__module__ == "beam_jobs.pipeline"
            assert type(function.work).__name__ in [*STAGES, "ListCorpus"]


def test_the_whole_graph_is_small(graph):
    """It has no list of files, and so does not grow with the corpus."""
    assert graph.ByteSize() < 100_000
