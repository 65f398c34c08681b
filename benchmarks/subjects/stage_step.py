"""Training steps of a stack of Dense layers on one device, or in stages, in one process."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.subjects.clock import measure, report

_LAYERS, _WIDTH, _BATCH = 8, 1536, 512
_WARM_UP, _STEPS, _TRACED = 12, 12, 8


def main() -> None:
    """Arguments: number of STAGES, number of MICROBATCHES [traced]."""
    stages, microbatches = int(sys.argv[1]), int(sys.argv[2])
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * stages
    )
    import numpy as np

    loop = _loop(stages, microbatches)
    values = np.random.default_rng(0).normal(size=(_BATCH, _WIDTH)).astype(np.float32)
    batch = (values, np.zeros(_BATCH, np.int64))
    batches = iter(loop.distribute(tf.data.Dataset.from_tensors(batch).repeat()))

    def steps(count: int) -> int:
        loop.train(batches, count, lambda *_: None)
        return count * _BATCH

    if sys.argv[3:]:
        _trace(steps, stages)
        return
    steps(_WARM_UP)
    measure(lambda: steps(_STEPS))


def _trace(steps: Callable[[int], int], stages: int) -> None:
    """Prints what steps took, and how much stages work at the same moment, from a trace."""
    import tensorflow as tf

    device_of_operation = _devices(lambda: steps(1))
    steps(_WARM_UP)
    with tempfile.TemporaryDirectory() as folder:
        # Level 3 has a line for each operation.
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=3)
        tf.profiler.experimental.start(folder, options)
        cpu, begun = time.process_time(), time.perf_counter()
        records = steps(_TRACED)
        seconds, cpu_seconds = time.perf_counter() - begun, time.process_time() - cpu
        tf.profiler.experimental.stop()
        shares = _shares(list(_spans(Path(folder), device_of_operation)), stages)
    report(records, seconds, cpu_seconds, shares)


def _loop(stages: int, microbatches: int) -> Any:
    """The loop of a new model."""
    import keras
    import tensorflow as tf

    from trainer.loop import Loop, StepOptions
    from trainer.objective import Objective
    from trainer.pipeline.calls import calls_of
    from trainer.pipeline.loop import PipelineLoop
    from trainer.pipeline.placement import balanced, measured
    from trainer.pipeline.stages import Stages
    from trainer.strategies.pipeline import create, rows_of_devices

    layers = [keras.layers.Dense(_WIDTH, activation="relu") for _ in range(_LAYERS)]
    ending = keras.layers.Dense(10, activation="softmax")
    model = keras.Sequential([keras.Input((_WIDTH,)), *layers, ending])
    optimizer = keras.optimizers.SGD(1e-3)
    objective = Objective(model)
    if stages == 1:
        optimizer.build(model.trainable_variables)
        options = StepOptions(_BATCH, accumulate=microbatches)
        return Loop(create(), model, optimizer, options, objective)
    calls = calls_of(objective.body)
    costs = measured(calls, tf.random.normal((_BATCH // microbatches, _WIDTH)), "/cpu:0")
    # A weight and its gradient take twice the bytes of the weight: SGD keeps no state.
    begins = balanced(costs, stages, 2.0, microbatches)
    divided = Stages(calls, begins, rows_of_devices(stages))
    divided.move(model.variables)
    optimizer.build(model.trainable_variables)
    return PipelineLoop(
        divided,
        microbatches,
        False,
        strategy=create(),
        model=model,
        optimizer=optimizer,
        options=StepOptions(_BATCH),
        objective=objective,
    )


def _devices(first_step: Callable[[], object]) -> Mapping[str, int]:
    """The device of each operation that the first step makes: a trace names operations only."""
    from tensorflow.python.eager import context  # the graphs of each device have no public name

    context.context().enable_graph_collection()
    first_step()
    functions = context.context().export_run_metadata().function_graphs
    context.context().disable_graph_collection()
    return {
        node.name: int(node.device.rsplit(":", 1)[1])
        for function in functions
        if len(function.partition_graphs) > 1
        for graph in function.partition_graphs
        for node in graph.node
    }


def _spans(folder: Path, device_of_operation: Mapping[str, int]) -> Iterator[tuple[int, int, int]]:
    """Device, begin and end in picoseconds of each operation of the steps in a trace."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    (file,) = folder.rglob("*.xplane.pb")
    for plane in xplane_pb2.XSpace.FromString(file.read_bytes()).planes:
        for line in plane.lines:
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name.rsplit(":", 1)[0]
                if (device := device_of_operation.get(name)) is not None:
                    begin = line.timestamp_ns * 1000 + event.offset_ps
                    yield device, begin, begin + event.duration_ps


def _shares(spans: Sequence[tuple[int, int, int]], stages: int) -> dict[str, Any]:
    """Shares of the time in which any stage works: of each stage, and of all at once."""
    changes = [
        change for stage, begin, end in spans for change in ((begin, stage, 1), (end, stage, -1))
    ]
    working, last = [0] * stages, 0
    any_busy, all_busy, operations, busy = 0, 0, 0, [0] * stages
    for moment, stage, change in sorted(changes):
        passed, last = moment - last, moment
        any_busy += passed * any(working)
        all_busy += passed * all(working)
        operations += passed * sum(working)
        busy = [before + passed * bool(now) for before, now in zip(busy, working, strict=True)]
        working[stage] += change
    return {
        "busy": [round(one / any_busy, 3) for one in busy],
        "all_busy": round(all_busy / any_busy, 3),
        "operations_at_once": round(operations / any_busy, 2),
    }


if __name__ == "__main__":
    main()
