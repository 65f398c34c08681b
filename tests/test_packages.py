"""What the packages promise as packages: light imports, public names, no circles."""

from __future__ import annotations

import ast
import importlib
import pathlib
import subprocess
import sys
import types

import pytest

PACKAGES = (
    *("foundation", "shard_format", "beam_jobs", "reader", "trainer", "inference", "search"),
    *("viewer", "cli", "shardmill"),
)

# Third-party packages that the code of each package imports, at any depth of a module.
THIRD_PARTY = {
    "foundation": {
        *("boto3", "google", "hdfs_native", "huggingface_hub", "obstore", "pyarrow"),
        "typing_extensions",
    },
    "shard_format": {"google_crc32c", "numpy", "pyarrow", "typing_extensions"},
    "beam_jobs": {
        *(
            "PIL",
            "aiohttp",
            "apache_beam",
            "array_record",
            "chardet",
            "cv2",
            "ftfy",
            "jinja2",
            "markupsafe",
        ),
        *(
            "fasttext",
            "ijson",
            "kenlm",
            "numpy",
            "onnxruntime",
            "orjson",
            "pi_heif",
            "pycocotools",
            "yaml",
        ),
        *("psutil", "pyarrow", "resiliparse", "sentencepiece", "simplejpeg", "tokenizers"),
        *("typing_extensions", "xxhash", "yarl"),
    },
    "reader": {
        *("array_record", "cv2", "google_crc32c", "grain", "jax", "keras", "litdata", "ml_dtypes"),
        *("numpy", "psutil", "pyarrow", "sentencepiece", "simplejpeg", "streaming", "tensorflow"),
        *("tokenizers", "torch", "typing_extensions", "webdataset"),
    },
    "trainer": {
        *("google_crc32c", "h5py", "jax", "keras", "matplotlib", "numpy", "prometheus_client"),
        *("psutil", "tensorflow", "typing_extensions"),
    },
    "inference": {"ai_edge_litert", "keras", "numpy", "onnxruntime", "tensorflow", "tf2onnx"},
    "search": {"matplotlib", "numpy", "optuna", "yaml"},
    "viewer": {"PIL", "numpy", "pyarrow", "simplejpeg", "starlette", "uvicorn"},
    "cli": {"click", "rich", "tomli_w", "typing_extensions"},
    "shardmill": set(),
}


@pytest.fixture(scope="module")
def imports(repository) -> dict[str, set[str]]:
    """For every module, what it imports: at any depth, under TYPE_CHECKING and in functions too."""
    files = {}
    for package in PACKAGES:
        for path in sorted((repository / package).rglob("*.py")):
            parts = path.relative_to(repository).with_suffix("").parts
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    named = {module: _imported(path, files.keys()) for module, path in files.items()}
    return {module: names | _packages_of(names, module) for module, names in named.items()}


def _packages_of(names: set[str], module: str) -> set[str]:
    """The packages that an import of some modules runs first, but for those around this one."""
    above = {name.rpartition(".")[0] for name in names if name.startswith(PACKAGES)}
    while more := {name.rpartition(".")[0] for name in above} - above - {""}:
        above |= more
    return {name for name in above - {""} if not f"{module}.".startswith(f"{name}.")}


def _imported(path: pathlib.Path, modules) -> set[str]:
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            imported |= names & modules
            if names - modules:  # something of the module itself
                imported.add(node.module)
    return imported


def _circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The strongly connected components of more than one node (Tarjan 1972)."""
    number, lowest, stack, circles = {}, {}, [], []

    def visit(node):
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in number:
                visit(other)
            if other in stack:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == number[node]:
            position = stack.index(node)
            if len(stack) - position > 1:
                circles.append(set(stack[position:]))
            del stack[position:]

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return circles


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a", "f"}, "f": {"e"}}
    assert _circles(graph) == [{"b", "c"}, {"e", "f"}]
    assert _circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_modules_import_each_other(imports):
    assert _circles({module: names & imports.keys() for module, names in imports.items()}) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_third_party_packages_are_listed(package, imports):
    packages = set()
    for module, names in imports.items():
        if module.partition(".")[0] == package:
            packages |= {name.partition(".")[0] for name in names}
    packages -= {*sys.stdlib_module_names, *PACKAGES}
    assert packages == THIRD_PARTY[package]


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        (
            "foundation.storage",
            {"obstore", "google.cloud", "huggingface_hub", "tensorflow", "apache_beam"},
        ),
        (
            "shard_format",
            {"tensorflow", "keras", "apache_beam", "cv2", "PIL", "rich", "psutil", "click"},
        ),
        ("beam_jobs", {"tensorflow", "keras", "apache_beam", "cv2", "numpy"}),
        ("beam_jobs.run", {"tensorflow", "keras"}),
        ("beam_jobs.report", {"tensorflow", "keras", "apache_beam"}),
        ("trainer", {"tensorflow", "keras", "apache_beam", "matplotlib"}),
        ("reader", {"apache_beam", "click"}),
        ("reader.damage", {"tensorflow"}),  # every command with bars loads it
        ("reader.options", {"tensorflow", "click"}),
        ("reader.access.random_access", {"tensorflow"}),
        ("reader.cache.store", {"tensorflow"}),
        ("reader.index_export", {"tensorflow"}),
        ("reader.service.processes", {"tensorflow"}),
        ("cli.main", {"tensorflow", "keras", "apache_beam", "cv2", "rich", "optuna", "yaml"}),
        ("viewer.server", {"tensorflow", "keras", "apache_beam", "rich"}),
        ("shardmill", {"tensorflow", "keras", "apache_beam", "numpy", "pyarrow"}),
        ("search.searching", {"tensorflow", "matplotlib", "optuna", "yaml"}),
    ],
)
def test_an_import_loads_only_what_it_may(package, forbidden, repository):
    # A package of Google's, which 'make engines' installs, has itself loaded when Python starts.
    program = f"""
import sys
before = set(sys.modules)
import {package}
print(sorted({forbidden!r} & set(sys.modules) - before))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=repository, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("package", ["shard_format", "beam_jobs", "reader", "trainer", "shardmill"])
def test_public_names_are_listed(package):
    module = importlib.import_module(package)
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None


@pytest.mark.parametrize("package", ["shard_format", "reader", "trainer", "shardmill"])
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
