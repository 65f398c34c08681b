"""Jobs for Dataflow: what would fail there after minutes is found before the corpus is listed.

A worker is a new machine: it has Beam's container image, fetches the staged packages from a bucket,
and sees no disk of the launcher.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from apache_beam.options.pipeline_options import (
    GoogleCloudOptions,
    PipelineOptions,
    SetupOptions,
    WorkerOptions,
)
from apache_beam.options.pipeline_options_validator import PipelineOptionsValidator
from apache_beam.runners.runner import PipelineRunner

from beam_jobs.options import PreprocessOptions
from beam_jobs.options.values import FILE, FILES, FOLDER
from foundation.extras import MissingExtraError
from foundation.options import declared, flag_of
from foundation.storage import place_of
from shard_format import UsageError

RUNNER = "DataflowRunner"


def is_dataflow(runner: PipelineRunner) -> bool:
    """Whether a runner submits jobs to Dataflow."""
    return type(runner).__name__ == RUNNER


def check_job(
    options: PreprocessOptions, runner: PipelineRunner, beam_options: PipelineOptions
) -> None:
    """Checks that Dataflow can run a job.

    Args:
        options: The job.
        runner: Beam's runner for Dataflow.
        beam_options: For Beam.

    Raises:
        MissingExtraError: Beam's client for Dataflow is not installed.
        UsageError: An option is missing, or names a place that workers cannot reach.
    """
    for flag, value in _places(options):
        if isinstance(place_of(value), Path):
            raise UsageError(
                f"{flag} {value} is on this machine, which workers of Dataflow cannot reach. Copy "
                "it to a bucket and name its URL, such as gs://BUCKET/FOLDER."
            )
    _check_bucket(beam_options)
    _check_packages(beam_options)
    try:
        import apache_beam.runners.dataflow.internal.apiclient  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            "Beam's client for Dataflow is not installed. Run: pip install 'shardmill[dataflow]'"
        ) from None
    errors = PipelineOptionsValidator(beam_options, runner).validate()
    if errors:
        raise UsageError(f"{' '.join(errors)} Correct the options after '--'.")


def _places(options: PreprocessOptions) -> Iterator[tuple[str, str]]:
    """Every place that an option names, with the option."""
    for source in options.sources:
        yield "The source", source
    yield "--out", options.out
    for folder in options.repaired:
        yield "The folder", folder
    for field in declared(options):
        value = getattr(options, field.name)
        if value and field.metadata["form"] in (FILE, FOLDER, FILES):
            paths = value.split(",") if field.metadata["form"] is FILES else [value]
            yield from ((flag_of(field.name), path) for path in paths)


def _check_bucket(beam_options: PipelineOptions) -> None:
    """Without one, Beam would look for a default bucket of the project, and create it."""
    google = beam_options.view_as(GoogleCloudOptions)
    if not google.temp_location and not google.staging_location:
        raise UsageError(
            "--temp_location is missing: Dataflow reads the job and its packages from a bucket. "
            "Add --temp_location=gs://BUCKET/tmp after '--'."
        )


def _check_packages(beam_options: PipelineOptions) -> None:
    setup = beam_options.view_as(SetupOptions)
    staged = setup.extra_packages or setup.setup_file or setup.requirements_file
    if not staged and not beam_options.view_as(WorkerOptions).sdk_container_image:
        raise UsageError(
            "Workers would have no shardmill. Add --sdk_container_image=IMAGE after '--', or "
            "--extra_package=WHEEL and --requirements_file=FILE; docs/dataflow.md has both."
        )
