"""The job as a transform of Beam, for any of its engines: the steps of `pipeline` as ParDos."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.typehints.decorators import no_annotations
from typing_extensions import override

from beam_jobs.build import Build, open_job
from beam_jobs.job_context import JobContext
from beam_jobs.options import PreprocessOptions
from beam_jobs.pipeline import BUILDS, ListCorpus, Step, listing_steps, merging_of, steps
from beam_jobs.stages.list_pieces import PieceTask
from beam_jobs.stages.plan import Merging
from beam_jobs.work import Work
from shard_format import UsageError

# Of the counters of the job.
NAMESPACE = "shardmill"


class BuildShardSet(beam.PTransform):
    """Builds a shard set: a pipeline in, a PCollection with the root hash of the set out.

        root_hash = pipeline | BuildShardSet(ImageOptions(("photos",), "set"))

    Options are checked when the transform is constructed, on the machine that submits the pipeline;
    the corpus is listed when it runs.

    Args:
        options: The job.
        build: The listed corpus, from a launcher that will finish the build.
        context: The job of that launcher, with these options.
        merging: Whether and how staged units are merged before shards are written; None to decide
            by where they are, and by the size of the corpus if it is listed.
    """

    def __init__(
        self,
        options: PreprocessOptions,
        build: Build | None = None,
        context: JobContext | None = None,
        merging: Merging | None = None,
    ) -> None:
        super().__init__()
        if build is None and options.overwrite:
            raise UsageError(
                "--overwrite needs a launcher that waits for the job, to replace the old set once "
                "the new one is whole. Leave it out, and choose another --out."
            )
        self._context = context or open_job(options)
        self._build = build
        self._merging = merging or merging_of(self._context, build)

    @override
    def expand(self, root: Any) -> Any:
        launched = self._build is not None
        job_steps = steps(self._context, self._merging, launched=launched)
        if self._build is not None:
            return _apply(partial(_created, root, self._build), job_steps)
        lists = ListCorpus(self._context, launched=False)
        build = root | "Start" >> beam.Create([None]) | BUILDS >> beam.ParDo(RunWork(lists))

        def kept(label: str) -> Any:
            """The Build for a step, a retry of which must not list again, and for the next one."""
            nonlocal build
            build = build | label >> beam.Reshuffle()
            return build

        return _apply(kept, job_steps)


class DoListTasks(beam.PTransform):
    """Lists pieces of a large corpus: a pipeline in, an empty PCollection out.

    Args:
        context: The job of a launcher, which waits for the results in the workspace.
        tasks: What is to be done.
    """

    def __init__(self, context: JobContext, tasks: Sequence[PieceTask]) -> None:
        super().__init__()
        self._context = context
        self._tasks = tasks

    @override
    def expand(self, root: Any) -> Any:
        first = partial(_created, root, list(self._tasks))
        return _apply(first, listing_steps(self._context))


def _created(root: Any, element: object, label: str) -> Any:
    """A collection of one element."""
    return root | label >> beam.Create([element], reshuffle=False)


def _apply(first: Callable[[str], Any], steps: Iterable[Step]) -> Any:
    """The outputs of the last of some steps.

    Args:
        first: From a label to a collection of the element that is in the place of `BUILDS`. Each
            step has its own: where one has many readers, Flink has 512 network buffers of 32 KiB
            for each of them, at the same time.
        steps: In an order in which they can be done.
    """
    collections: dict[str, Any] = {}
    for step in steps:
        own = step.each == BUILDS
        elements = first(f"Start{step.name}") if own else collections[step.each]
        if step.spread:
            elements |= step.spread >> beam.Reshuffle()
        # Lists as side inputs are barriers on every runner; the local one cannot wait for a
        # Flatten.
        whole = [beam.pvalue.AsList(collections[name]) for name in step.whole]
        last = collections[step.name] = elements | step.name >> beam.ParDo(
            RunWork(step.work), *whole
        )
    return last


class RunWork(beam.DoFn):
    """The work of a step as a function of Beam, with its counters.

    Args:
        work: Pickled by name, like this class: workers import it.
    """

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.work = work

    @override
    def setup(self) -> None:
        self.work.setup(_count)

    @override
    @no_annotations  # Beam takes `*whole: Any` for a type that lists as side inputs violate
    def process(self, element: Any, *whole: Any) -> Iterator[Any]:
        yield from self.work.process(element, *whole)

    @override
    def finish_bundle(self) -> None:
        self.work.finish()


def _count(name: str, value: int) -> None:
    """Adds to a counter that the pages of Flink and Dataflow show, and the pipeline's result has.

    The ledger of a set does not come from them: where an engine repeats work, it may count again.
    """
    Metrics.counter(NAMESPACE, name).inc(value)
