import subprocess
import sys

import trainer


def test_exported_names_are_sorted_and_exist():
    constants = [name for name in trainer.__all__ if name.isupper()]
    classes = [name for name in trainer.__all__ if name[0].isupper() and not name.isupper()]
    functions = [name for name in trainer.__all__ if name[0].islower()]
    assert trainer.__all__ == sorted(constants) + sorted(classes) + sorted(functions)
    assert all(hasattr(trainer, name) for name in trainer.__all__)


def test_import_loads_neither_tensorflow_nor_keras():
    code = "import sys, trainer; print([m for m in ('tensorflow', 'keras') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
