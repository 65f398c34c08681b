"""What the packages promise as packages: light imports, public names."""

from __future__ import annotations

import importlib
import subprocess
import sys
import types

import pytest


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("shard_format", {"tensorflow", "keras", "apache_beam", "cv2", "PIL", "rich"}),
        ("beam_jobs", {"tensorflow", "keras", "apache_beam", "cv2", "numpy"}),
        ("beam_jobs.run", {"tensorflow", "keras"}),
        ("beam_jobs.report", {"tensorflow", "keras", "apache_beam"}),
        ("trainer", {"tensorflow", "keras", "apache_beam"}),
        ("reader", {"apache_beam", "click"}),
        ("reader.options", {"tensorflow", "click"}),
        ("reader.access.random_access", {"tensorflow"}),
        ("reader.cache.store", {"tensorflow"}),
        ("reader.index_export", {"tensorflow"}),
        ("reader.service.processes", {"tensorflow"}),
        ("cli.main", {"tensorflow", "keras", "apache_beam", "cv2", "rich"}),
    ],
)
def test_an_import_loads_only_what_it_may(package, forbidden, repository):
    program = f"import sys, {package}; print(sorted({forbidden!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=repository, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("package", ["shard_format", "reader", "trainer"])
def test_public_names_are_listed(package):
    module = importlib.import_module(package)
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None


@pytest.mark.parametrize("package", ["shard_format", "reader", "trainer"])
def test_a_package_shows_its_public_names_and_no_others(package):
    module = importlib.import_module(package)
    for name in module.__all__:
        getattr(module, name)  # those of the reader are imported when they are first used
    shown = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert shown - {"annotations", "TYPE_CHECKING"} == set(module.__all__)
