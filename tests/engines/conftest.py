"""Every test of this folder runs on an engine: `make test-engines`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.flink import FlinkCluster, flink_cluster
from tests.engines.jobs import images_job, job, shaped_job, slow_job, text_job

__all__ = ["images_job", "job", "shaped_job", "slow_job", "text_job"]  # fixtures


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.engine)


@pytest.fixture(scope="module")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    """A cluster of two TaskManagers."""
    with flink_cluster(tmp_path_factory.mktemp("flink")) as cluster:
        yield cluster
