"""A model of ONNX: NAME[:KIND]=onnx:FILE[:PARAMETER=VALUE...].

The last bits of what ONNX Runtime computes may depend on the size of a batch (decision 0051). So
all batches have one size, 1 by default, and the last of a larger size is filled up with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from typing_extensions import override

from beam_jobs.options.scores import ScoreSpec
from beam_jobs.package_versions import module_versions
from beam_jobs.scores.base import Scorer, check_parameters, digest, parameter
from foundation import storage
from shard_format import Feature, UsageError

_MEAN, _STD = "0.485+0.456+0.406", "0.229+0.224+0.225"  # of ImageNet, of channels in [0, 1]
_LEVELS = 256  # of a channel
_MOST_PIXELS = 1 << 28
_TEXT_LENGTH = "512"  # tokens
_TYPES = {
    "tensor(float)": np.float32,
    "tensor(uint8)": np.uint8,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}
Array = npt.NDArray[Any]


class OnnxModel(Scorer):
    """The model, on one core, for workers use them all.

    Its first output has one number per record, or a tensor. Of a tensor the place of the largest
    value is kept, and the value; or with a kind such as float32[512] the whole tensor.
    """

    def __init__(self, spec: ScoreSpec, is_text: bool) -> None:
        self._path = spec.file
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.use_deterministic_compute = True
        options.log_severity_level = 4  # errors are raised
        self._session = onnxruntime.InferenceSession(
            storage.read_bytes(storage.place_of(spec.file)),
            options,
            providers=["CPUExecutionProvider"],
        )
        self._input = (_TextInput if is_text else _ImageInput)(spec, self._session.get_inputs())
        (output,) = self._outputs([self._input.example])
        kinds = {"": spec.kind or "float32"}
        if output.size != 1 and not spec.kind:
            kinds = {"": "int64", "_score": "float32"}
        self.features = tuple(Feature.parse(spec.column + end, kind) for end, kind in kinds.items())
        if output.size == 0 or (output.size > 1 and spec.kind and not self.features[0].shape):
            raise UsageError(
                f"--score {spec}: the model returns {output.size} values for each record. Write "
                f"{spec.column}:float32[{output.size}] to keep them all."
            )

    @override
    def described(self) -> dict[str, Any]:
        return {
            "sha256": digest(self._path),
            "input": self._input.described,
            "kinds": [feature.form for feature in self.features],
            **module_versions("onnxruntime"),
        }

    @override
    def __call__(self, records: Sequence[Any]) -> Sequence[Sequence[Any]]:
        outputs = self._outputs([self._input.of(record) for record in records])
        if self.features[0].shape:
            return (outputs,)
        if len(self.features) == 1:
            return ([one.item() for one in outputs],)
        return [int(one.argmax()) for one in outputs], [float(one.max()) for one in outputs]

    def _outputs(self, inputs: Sequence[Array]) -> list[Array]:
        """What the model returns for each record."""
        size, outputs = self._input.batch, list[Array]()
        for start in range(0, len(inputs), size):
            batch = list(inputs[start : start + size])
            filled = np.stack(batch + [np.zeros_like(batch[0])] * (size - len(batch)))
            output = np.asarray(self._session.run(None, self._input.fed(filled))[0])
            if output.shape[:1] != (size,):
                raise ValueError(f"it returns {list(output.shape)} for {size} records")
            outputs += list(output[: len(batch)])
        return outputs


class _ImageInput:
    """Images as the model takes them.

    They are scaled and cut to its size as by --resize crop:WxH. Of channels in [0, 1] `mean` is
    subtracted, and the rest divided by `std`; a model of uint8 gets them as they are.

    Attributes:
        batch: Number of images at a time.
        described: What decides the values.
        example: [3, height, width] or [height, width, 3], a black image.
    """

    def __init__(self, spec: ScoreSpec, inputs: Sequence[Any]) -> None:
        from beam_jobs.images.resize import parse_resize  # not for texts

        check_parameters(spec, "batch", "mean", "size", "std")
        shape = list(inputs[0].shape)
        if len(inputs) != 1 or len(shape) != 4 or 3 not in shape[1::2]:
            raise _misfit(spec, inputs, "[batch, 3, height, width] or [batch, height, width, 3]")
        self._name, dtype = inputs[0].name, _TYPES.get(inputs[0].type, np.float32)
        self._axis = 0 if shape[1] == 3 else 2
        sides = shape[2:] if self._axis == 0 else shape[1:3]
        (given,) = _numbers(spec, "size", "0")
        height, width = (side if isinstance(side, int) else int(given) for side in sides)
        if min(height, width) < 1:
            raise UsageError(
                f"--score {spec}: the model takes images of any size. Choose one: :size=224."
            )
        self._resize = parse_resize(f"crop:{width}x{height}", enlarge=True)
        mean, std = _numbers(spec, "mean", _MEAN), _numbers(spec, "std", _STD)
        levels = np.arange(_LEVELS)[:, None]
        table = levels if dtype is np.uint8 else (levels / (_LEVELS - 1) - mean) / std
        self._table = np.broadcast_to(table, (_LEVELS, 3)).astype(dtype)[None]
        self.batch = _batch(spec, shape[0])
        self.example = self.of(np.zeros((height, width, 3), np.uint8))
        self.described = [height, width, mean, std, self.batch]

    def of(self, image: Array) -> Array:
        """One image, as `example`."""
        import cv2  # not for texts

        from beam_jobs.images.resize import resize_image

        image = cv2.LUT(resize_image(image, self._resize, _MOST_PIXELS), self._table)
        return np.stack(cv2.split(image)) if self._axis == 0 else image

    def fed(self, batch: Array) -> dict[str, Array]:
        """The input of a batch."""
        return {self._name: batch}


class _TextInput:
    """The ids of texts, and a mask and types where the model takes them.

    Attributes:
        batch: Number of texts at a time.
        described: What decides the values.
        example: [tokens, 2], a text.
    """

    def __init__(self, spec: ScoreSpec, inputs: Sequence[Any]) -> None:
        import tokenizers

        from beam_jobs.text.tokenizers import load_tokenizer

        check_parameters(spec, "batch", "length", "tokenizer")
        path = parameter(spec, "tokenizer", "")
        if not path:
            raise UsageError(f"--score {spec}: a model of texts needs :tokenizer=FILE. Add it.")
        loaded = load_tokenizer(storage.place_of(path))
        shapes, kinds = [list(one.shape) for one in inputs], {one.type for one in inputs}
        if loaded.kind != "json":
            raise UsageError(f"--score {spec}: the tokenizer must be a tokenizer.json. Name one.")
        if any(len(one) != 2 for one in shapes) or kinds - {"tensor(int64)", "tensor(int32)"}:
            raise _misfit(spec, inputs, "ids of tokens, [batch, tokens]")
        self._inputs = [(one.name, _TYPES[one.type]) for one in inputs]
        batch, tokens = shapes[0]
        self._fixed = tokens if isinstance(tokens, int) else 0
        length = self._fixed or int(_numbers(spec, "length", _TEXT_LENGTH)[0])
        content = storage.read_bytes(storage.place_of(path)).decode()
        self._tokenizer = tokenizers.Tokenizer.from_str(content)
        self._tokenizer.enable_truncation(length)
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True  # texts are not to be trusted
        self._pad = loaded.vocabulary.pad or 0
        # Texts of several lengths are computed alone: padding would change the last bits.
        self.batch = _batch(spec, batch) if self._fixed else 1
        self.example = self.of("a")
        self.described = [digest(path), length, self.batch, tokenizers.__version__]

    def of(self, text: str) -> Array:
        """[tokens, 2] int64: the ids of one text, and which of them are not padding."""
        ids = self._tokenizer.encode(text).ids or [self._pad]
        more = max(self._fixed - len(ids), 0)
        return np.array([[one, 1] for one in ids] + [[self._pad, 0]] * more, np.int64)

    def fed(self, batch: Array) -> dict[str, Array]:
        """The inputs of a batch; the first one that is neither a mask nor types is the ids."""
        own = {"mask": batch[:, :, 1], "type": np.zeros_like(batch[:, :, 0])}
        return {
            name: next((own[key] for key in own if key in name), batch[:, :, 0]).astype(kind)
            for name, kind in self._inputs
        }


def _numbers(spec: ScoreSpec, name: str, default: str) -> list[float]:
    """The numbers of "0.5+0.5+0.5".

    Raises:
        UsageError: It has something else.
    """
    text = parameter(spec, name, default)
    try:
        numbers = [float(one) for one in text.split("+")]
    except ValueError:
        numbers = []
    is_usable = len(numbers) in (1, 3) and all(map(np.isfinite, numbers))
    if not is_usable or (name == "std" and 0 in numbers):
        raise UsageError(
            f"--score {spec}: {name} is {text!r}. Write one number, or three with + between them."
        )
    return numbers


def _batch(spec: ScoreSpec, size: Any) -> int:
    """The size of a batch: that of the model, or as it is asked for."""
    return size if isinstance(size, int) else max(1, int(_numbers(spec, "batch", "1")[0]))


def _misfit(spec: ScoreSpec, inputs: Sequence[Any], wanted: str) -> UsageError:
    shown = ", ".join(f"{one.name} {one.type} {list(one.shape)}" for one in inputs)
    return UsageError(f"--score {spec}: the model takes {shown}, not {wanted}. Name another one.")
