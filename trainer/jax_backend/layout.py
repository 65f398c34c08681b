"""Which dimension of a weight is divided among the devices of a mesh.

The compiler divides the operations accordingly (Xu et al., "GSPMD", 2021), so that the result is
that of one device up to rounding. By default attention is divided by heads (Shoeybi et al.,
"Megatron-LM", 2019, section 3) and any other weight with two dimensions or more by its outputs, the
last dimension; a matrix whose outputs the devices do not divide by its inputs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
from typing_extensions import override

from foundation.errors import UsageError, file_error
from trainer.options import mesh_sizes

# (pattern of the path of a weight, the dimension that is divided)
Rule = tuple[str, int | None]

_ATTENTION: tuple[Rule, ...] = (
    (r"/(query|key|value)/kernel$", 1),  # [width, heads, width of a head]
    (r"/attention_output/kernel$", 0),  # [heads, width of a head, width]
)
_MODEL = "model"


class DividedModel(keras.distribution.ModelParallel):
    """Keras's ModelParallel, with layouts by rules and, where none fits, by the shapes of weights.

    Args:
        mesh: Devices, with an axis "model" that weights are divided on.
        rules: Rules, the first that fits counts.
    """

    def __init__(self, mesh: Any, rules: Sequence[Rule]) -> None:
        layouts = keras.distribution.LayoutMap(mesh)
        super().__init__(layout_map=layouts, batch_dim_name=mesh.axis_names[0])
        self._rules = (*rules, *_ATTENTION)
        self._unused = list(rules)
        self._parts = dict(zip(mesh.axis_names, mesh.shape, strict=True)).get(_MODEL, 1)

    @override
    def get_variable_layout(self, variable: Any) -> Any:
        axes: list[str | None] = [None] * len(variable.shape)
        dimension = self._dimension(variable.path, variable.shape)
        if dimension is not None:
            axes[dimension] = _MODEL
        return keras.distribution.TensorLayout(axes, self.device_mesh)

    def _dimension(self, path: str, shape: Sequence[int]) -> int | None:
        divisible = [n for n, side in enumerate(shape) if not side % self._parts]
        if self._parts == 1 or len(shape) < 2:
            return None
        for pattern, dimension in self._rules:
            if re.search(pattern, path) and (dimension is None or dimension in divisible):
                if (pattern, dimension) in self._unused:
                    self._unused.remove((pattern, dimension))
                return dimension
        if len(shape) - 1 in divisible:
            return len(shape) - 1
        return 0 if len(shape) == 2 and 0 in divisible else None

    def require_used(self) -> None:
        """Checks that every rule has decided for a weight of the models that were built.

        Raises:
            UsageError: One has not.
        """
        if self._unused and self._parts > 1:
            pattern, dimension = self._unused[0]
            rule = f"{pattern} {'-' if dimension is None else dimension}"
            raise UsageError(
                f"The rule {rule!r} of --layout decides for no weight: none of two dimensions or "
                f"more matches it first and has such a dimension that {self._parts} divides. "
                "Correct it, or remove it."
            )


def divided_model(mesh: str, layout: Path | None, batch_size: int) -> DividedModel:
    """The distribution of `--mesh data=2,model=4 --layout FILE`, for batches of some size.

    Raises:
        InputError: The file cannot be read.
        UsageError: The mesh divides no batch, or needs more devices than there are; or the file is
            no layout.
    """
    sizes = mesh_sizes("--mesh", mesh)
    if batch_size % sizes["data"]:
        raise UsageError(
            f"--batch-size {batch_size} is not a multiple of the {sizes['data']} parts of --mesh "
            f"{mesh}. Pass {batch_size // sizes['data'] * sizes['data'] or sizes['data']}."
        )
    devices = keras.distribution.list_devices()
    count = sizes["data"] * sizes["model"]
    if count > len(devices):
        raise UsageError(
            f"--mesh {mesh} needs {count} devices, and JAX sees {len(devices)}. Pass a smaller "
            "mesh; to try it on a CPU, set XLA_FLAGS=--xla_force_host_platform_device_count="
            f"{count}."
        )
    shape, names = tuple(sizes.values()), tuple(sizes)
    device_mesh = keras.distribution.DeviceMesh(shape, names, devices[:count])
    return DividedModel(device_mesh, _read_rules(layout) if layout else ())


def _read_rules(path: Path) -> list[Rule]:
    """Rules from lines such as `dense/kernel$ 1`; `-` in place of the dimension divides none.

    Raises:
        InputError: The file cannot be read.
        UsageError: A line is no rule.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError):
            raise file_error(error, str(path)) from error
        raise UsageError(f"{path} is not text: {error}. Pass a file of rules.") from error
    rules: list[Rule] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            pattern, dimension = line.rsplit(maxsplit=1)
            re.compile(pattern)
            rules.append((pattern.strip(), None if dimension == "-" else int(dimension)))
        except (re.error, ValueError) as error:
            raise UsageError(
                f"Line {number} of {path} is {line!r} ({error}). Write a regular expression for "
                "the paths of weights and the number of the dimension that is divided, such as "
                "dense/kernel$ 1; or - for none."
            ) from error
    return rules
