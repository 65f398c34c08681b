"""Workloads of MLPerf Storage, cut to what two cores and some gigabytes hold, and their loaders.

What is cut is passed on the command line, as the rules of the OPEN division have it: no YAML is
edited. The size of a record, the batch and the time that an accelerator takes for it stay.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_SMALL_STEPS = 3
MOST_RANKS = 4  # simulated accelerators; a process each, and more take minutes to start


@dataclasses.dataclass(frozen=True)
class Workload:
    """One of the workloads.

    Attributes:
        name: Its name in DLIO.
        files: Files of the training split.
        samples: Samples in each.
        record_bytes: Bytes of a sample.
        batch: Samples of a step of one rank.
        epochs: Passes.
        busy: Share of the time that an accelerator must be busy, in [0, 1].
        most_steps: Steps of a rank, at most.
    """

    name: str
    files: int
    samples: int
    record_bytes: int
    batch: int
    epochs: int
    busy: float
    most_steps: int

    def steps(self, ranks: int) -> int:
        """Steps of an epoch of each rank; DLIO refuses to begin more than there are."""
        return min(self.files * self.samples // self.batch // ranks, self.most_steps)

    def epochs_of(self, loader: str) -> int:
        """Passes of a run with a loader."""
        return 1 if loader == "dali" else self.epochs

    def samples_read(self, loader: str, ranks: int) -> int:
        """Samples of a run, of all ranks."""
        return self.steps(ranks) * self.epochs_of(loader) * self.batch * ranks

    @property
    def small(self) -> Workload:
        """What a test runs."""
        samples = -(-_SMALL_STEPS * self.batch // 2)
        return dataclasses.replace(
            self, files=2, samples=samples, epochs=1, most_steps=_SMALL_STEPS
        )


WORKLOADS = {
    "resnet50": Workload("resnet50_h100", 8, 1251, 114_660, 400, 3, 0.9, 1000),
    "cosmoflow": Workload("cosmoflow_h100", 64, 8, 2_828_486, 1, 2, 0.7, 1000),
    "bert": Workload("bert_v100", 2, 10_000, 2500, 48, 1, 0.9, 20),
}
# What a loader adds to the command line.
LOADERS: Mapping[str, Mapping[str, object]] = {
    "tensorflow": {},
    # Each epoch of it adds a pipeline, and two cannot be read (DLIO 2.0.0).
    "dali": {"reader.data_loader": "native_dali"},
    "pytorch": {
        "framework": "pytorch",
        "reader.data_loader": "pytorch",
        "dataset.format": "npz",
        "reader.multiprocessing_context": "fork",
    },
    "shardmill": {
        "reader.data_loader_classname": "benchmarks.dlio.loader.ShardmillLoader",
        "reader.data_loader_sampler": "iterative",
    },
}


def command(
    workload: Workload, loader: str, data: Path, results: Path, ranks: int, **changes: object
) -> list[str]:
    """The command line of a run of DLIO.

    Args:
        workload: What is trained.
        loader: A key of `LOADERS`.
        data: Folder of the data.
        results: Folder that DLIO writes summary.json to.
        ranks: Simulated accelerators.
        changes: Further settings, with "__" for a dot.
    """
    is_one_a_file = loader == "pytorch"
    total = workload.files * workload.samples
    settings: dict[str, object] = {
        "dataset.data_folder": data,
        "dataset.num_files_train": total if is_one_a_file else workload.files,
        "dataset.num_samples_per_file": 1 if is_one_a_file else workload.samples,
        "train.epochs": workload.epochs_of(loader),
        "train.total_training_steps": workload.steps(ranks),
        "workflow.checkpoint": False,
        **LOADERS[loader],
        **{name.replace("__", "."): value for name, value in changes.items()},
    }
    # The environment of this interpreter has mpirun. There may be more ranks than cores, and the
    # user of a container may be root.
    mpi = [str(Path(sys.executable).parent / "mpirun"), "-n", str(ranks)]
    mpi += ["--oversubscribe", "--allow-run-as-root", "--bind-to", "none"]
    dlio = [sys.executable, "-m", "dlio_benchmark.main", f"workload={workload.name}"]
    words = [f"++workload.{name}={value}" for name, value in settings.items()]
    return [*mpi, *dlio, *words, f"hydra.run.dir={results}"]


def run(command: list[str]) -> None:
    """Runs it.

    Raises:
        SystemExit: It failed; says what it printed.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit((done.stdout + done.stderr)[-3000:])
