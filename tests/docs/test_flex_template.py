"""The flex template of Dataflow: its parameters are the options, and become the job."""

from __future__ import annotations

import json
import re

import pytest

from beam_jobs.options import OPTIONS
from foundation.options import declared
from shard_format import UsageError

PLACES = ["--sources=gs://bkt/photos gs://bkt/more", "--out=gs://bkt/set"]


@pytest.fixture(scope="module")
def generator(load_script):
    return load_script("docs/make_flex_template.py")


@pytest.fixture(scope="module")
def template(load_script):
    return load_script("samples/dataflow/flex_template.py")


@pytest.fixture(scope="module")
def parameters(generator):
    written = json.loads(generator.PAGE.read_text(encoding="utf-8"))["parameters"]
    return {parameter["name"]: parameter for parameter in written}


def _matches(parameter, value):
    return all(re.search(regex, value) for regex in parameter.get("regexes", ()))


def test_the_metadata_is_what_the_declarations_give(generator):
    written = generator.PAGE.read_text(encoding="utf-8")
    assert written == generator.page(), "run: python docs/make_flex_template.py"


def test_every_parameter_is_an_option_and_every_option_a_parameter(parameters, template, generator):
    options = {field.name for kind in OPTIONS.values() for field in declared(kind)}
    named = {template.RENAMED.get(name, name) for name in parameters}
    assert named - {"job", "sources", "out"} == options - generator.WITHOUT
    required = [name for name in parameters if not parameters[name].get("isOptional")]
    assert required == ["job", "sources", "out"]


def test_the_expressions_match_every_default_and_choice_and_nothing_else(parameters, template):
    for kind in OPTIONS.values():
        for field in declared(kind):
            renamed = {option: name for name, option in template.RENAMED.items()}
            parameter = parameters.get(renamed.get(field.name, field.name))
            if parameter is None:
                continue
            default = field.default
            values = [str(default).lower() if isinstance(default, bool) else default]
            for value in [*values, *field.metadata["choices"]]:
                assert value is None or _matches(parameter, str(value)), (field.name, value)
    assert _matches(parameters["out"], "gs://bkt/set")
    assert not _matches(parameters["out"], "/home/me/set")
    assert not _matches(parameters["job"], "photos")
    assert not _matches(parameters["stratify"], "yes")
    assert not _matches(parameters["seed"], "-1")


def test_parameters_become_the_options_and_the_rest_goes_to_beam(template):
    given = ["--job=images", *PLACES, "--stratify=true", "--no_report=false", "--num_shards=8"]
    given += ["--near_threshold=0.8", "--labels_table=gs://bkt/t.csv", "--keep_columns="]
    beam = [
        "--runner=DataflowRunner",
        "--labels=team=a",
        "--experiments=use_runner_v2",
        "--no_auth",
    ]
    options, beam_args = template.parse([*given, *beam])
    assert beam_args == beam
    assert options.sources == ("gs://bkt/photos", "gs://bkt/more")
    assert (options.stratify, options.no_report, options.num_shards) == (True, False, 8)
    assert (options.near_threshold, options.labels) == (0.8, "gs://bkt/t.csv")
    assert options.keep_columns is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--job=photos", *PLACES], "Unknown job 'photos'"),
        (PLACES, "Unknown job ''"),
        (["--job=text", PLACES[0]], "The parameter out is missing"),
        (["--job=text", *PLACES, "--pack=many"], "The parameter pack is 'many'"),
    ],
)
def test_a_wrong_parameter_is_named(template, given, message):
    with pytest.raises(UsageError, match=message):
        template.parse(given)
