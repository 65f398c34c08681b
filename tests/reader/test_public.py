from __future__ import annotations

import ast
import inspect
import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import reader


def _in_a_new_process(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_exported_names_are_sorted_and_exist() -> None:
    classes = [name for name in reader.__all__ if name[0].isupper()]
    functions = [name for name in reader.__all__ if name[0].islower()]
    assert reader.__all__ == sorted(classes) + sorted(functions)
    assert set(reader.__all__) <= set(dir(reader))


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(inspect.getsource(reader))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {}
    for statement in block.body:
        assert isinstance(statement, ast.ImportFrom)
        seen |= {alias.asname: statement.module for alias in statement.names}
    assert seen == reader._HOMES


def test_no_exported_name_is_taken_by_a_module() -> None:
    # Importing the module reader.x binds reader.x, whatever the package exports under that name.
    modules = {module.name for module in pkgutil.iter_modules(reader.__path__)}
    assert "stream" in modules and not modules & set(reader.__all__)


def test_an_unknown_name_is_reported() -> None:
    with pytest.raises(AttributeError, match="module 'reader' has no attribute 'laod'"):
        reader.laod  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="laod"):
        from reader import laod  # type: ignore[attr-defined]  # noqa: F401


def test_random_access_loads_no_tensorflow(tiny: Path) -> None:
    program = f"""
import sys, reader
data = reader.random_access({str(tiny)!r})
assert data[0]["image"].shape == (24, 32, 3) and len(data[3:7]) == 4
print([name for name in ("tensorflow", "keras", "torch", "grain") if name in sys.modules])
"""
    assert _in_a_new_process(program) == "[]"


def test_unpickling_does_not_hide_the_function(tiny: Path) -> None:
    data = pickle.dumps(reader.random_access(tiny))
    program = f"import pickle, reader; pickle.loads({data!r}); print(reader.random_access.__name__)"
    assert _in_a_new_process(program) == "random_access"


def test_a_stream_loads_no_tensorflow(tiny: Path) -> None:
    program = f"""
import sys, reader
augment = "strong,rotation,hue,saturation,rand_augment,random_erasing,mixup,cutmix,channels_first"
stream = reader.load({str(tiny)!r}, batch_size=4, image_size=8, augment=augment, sample="balanced")
images, labels = next(iter(stream))
assert images.shape == (4, 3, 8, 8) and stream.state_dict()["step"] == 1
print([name for name in ("tensorflow", "keras", "torch", "jax", "grain") if name in sys.modules])
stream.dataset
print("tensorflow" in sys.modules)
"""
    assert _in_a_new_process(program) == "[]\nTrue"
