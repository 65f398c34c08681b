"""The input pipeline of a split, as a graph, from the same split opened in NumPy."""

from __future__ import annotations

from reader.cache.filling import Filled
from reader.graph.columns import GraphColumns, graph_columns
from reader.graph.pipeline import InputPipeline
from reader.graph.readers import CalledReader, FileRecordReader, GraphRecordReader
from reader.graph.record_types import GRAPH_RECORD_TYPES, RecordParser
from reader.graph.sampling import CalledSampler, GraphSampler
from reader.graph.windows import GraphWindows, Lengths, Sizes
from reader.loader import BatchLoader
from reader.options import kind_of
from reader.order.class_sampling import ClassSampler
from reader.order.sampling import Sampler
from reader.record_types.tokens import TOKENS
from reader.records.open_split import OpenSplit
from reader.records.readers import LOCATION_COLUMNS
from reader.records.split_index import IndexInParts


def graph_pipeline(split: OpenSplit, loader: BatchLoader, filled: Filled) -> InputPipeline:
    """The pipeline of a graph that does what a loader does.

    Args:
        split: The split.
        loader: BatchLoader of its batches.
        filled: Cache that records are read from.
    """
    options, windows = loader.options, loader.windows
    parser = GRAPH_RECORD_TYPES[kind_of(split.schema)](loader.parser)
    is_served = options.service is not None

    def columns(*names: str) -> GraphColumns:
        return graph_columns(split, names, portable=is_served)

    lengths: Lengths | None = None
    if loader.parser.lengths is not None:
        lengths = Lengths(columns(TOKENS), TOKENS, options.max_tokens, windows.selection)
    sizes: Sizes | None = None
    has_sizes = set(Sizes.COLUMNS) <= set(split.index.column_names)
    if isinstance(parser, RecordParser) and parser.boxes_many and has_sizes:
        sizes = Sizes(columns(*Sizes.COLUMNS))
    portable: GraphRecordReader | None = None
    # Of an index in parts all would be opened.
    if filled.files is not None and (is_served or not isinstance(split.index, IndexInParts)):
        index = graph_columns(split, LOCATION_COLUMNS, portable=True)
        info = split.manifest.splits[split.name]
        chunk_records = split.geometry.chunk_records
        portable = FileRecordReader(filled.files.paths, info, index, chunk_records)
    return InputPipeline(
        GraphWindows(
            windows.worker_shard,
            CalledReader(windows.record_reader),
            options,
            lengths,
            _graph_sampler(windows.sampler),
            windows.selection,
            sizes,
            windows.first_records,
            windows.ahead,
            portable,
            windows.kept,
        ),
        parser,
        options,
    )


def _graph_sampler(sampler: Sampler | None) -> GraphSampler | CalledSampler | None:
    if isinstance(sampler, ClassSampler):
        return GraphSampler(sampler)
    return None if sampler is None else CalledSampler(sampler)
