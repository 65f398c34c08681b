"""What scores cost, in CPU time of one core: `python -m benchmarks.scores`.

Builds of documents with scores of rules beside builds without them, with the rules in --clean and
without; a fastText model beside fastText's own predict; a network of four convolutions with random
weights beside ONNX Runtime with as many batches, made before.
"""

from __future__ import annotations

import itertools
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fasttext
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from beam_jobs.images.decode.base import Pixels
from beam_jobs.options import ImageOptions, TextOptions
from beam_jobs.run import preprocess
from beam_jobs.scores.images import ImageScores
from beam_jobs.scores.rules import TextScores, rule_columns
from beam_jobs.text.cleaning.language import MODEL
from benchmarks.measure import parser, write
from benchmarks.text_corpus import documents, make_jsonl

_SIDE, _CHANNELS = 224, (3, 64, 128, 256, 512)  # 0.7 billion multiplications, 2/5 of a ResNet-18
_IMAGES = 60
_BUILD = {"no_labels": True, "workers": 1, "no_report": True, "dedup": "off"}
_RULES = "gopher-repetition,gopher-quality:min_words=1,fineweb:short_lines=2:line_punctuation=-1"

_OF_CLEAN = ("duplicate-", "top-", "gopher-", "fineweb-")


def main() -> None:
    """Measures in turns, and writes medians of the ratios within a turn."""
    options = parser("scores", __doc__)
    options.add_argument("--documents", type=int, default=8000, help="documents of the corpus")
    given = options.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    source, out = make_jsonl(given.work, given.documents), given.work / "out"
    texts, images = [*documents(given.documents // 2)], _photographs()
    model = _network(given.work / "network.onnx")

    def build(clean: str, score: str | None) -> Callable[[], float]:
        return lambda: _build(source, out, clean, score)

    every = ",".join(rule_columns())
    # The rules of the steps in --clean.
    ours = ",".join(one for one in rule_columns() if one.startswith(_OF_CLEAN))
    pairs: dict[str, tuple[Callable[[], float], Callable[[], float]]] = {
        "rules of --clean": (build(f"default,{_RULES}", None), build(f"default,{_RULES}", ours)),
        "rules without --clean": (build("default", None), build("default", every)),
        "fastText": (lambda: _predict(texts), lambda: _score_texts(texts)),
        "onnx": (lambda: _run(model, images), lambda: _score_images(model, images)),
    }
    turns: dict[str, list[dict[str, float]]] = {name: [] for name in pairs}
    for _ in range(given.turns):
        for name, (bare, scored) in pairs.items():
            seconds = {"without": bare(), "with": scored()}
            turns[name].append({one: round(value, 3) for one, value in seconds.items()})
    ratios = {
        name: round(statistics.median(one["without"] / one["with"] for one in own), 3)
        for name, own in turns.items()
    }
    print(ratios)
    write("scores", {"ratios": ratios, "cpu_seconds": turns})


def _cpu(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _build(source: Path, out: Path, clean: str, score: str | None) -> float:
    shutil.rmtree(out, ignore_errors=True)
    own: dict[str, Any] = {**_BUILD, "clean": clean, "score": score}
    return _cpu(lambda: preprocess(TextOptions(str(source), str(out), **own)))


def _predict(texts: list[str]) -> float:
    model = fasttext.load_model(str(MODEL)).f
    lines = [text.replace("\n", " ") + "\n" for text in texts]
    return _cpu(lambda: [model.predict(line, 1, 0.0, "strict") for line in lines])


def _score_texts(texts: list[str]) -> float:
    scores = TextScores(TextOptions("in", "out", score=f"kind=fasttext:{MODEL}"), ())
    return _cpu(lambda: scores.rows(texts, []))


def _photographs() -> list[Pixels]:
    generator = np.random.default_rng(0)
    return [
        generator.integers(0, 256, (256, 256 + number, 3), np.uint8) for number in range(_IMAGES)
    ]


def _network(path: Path) -> Path:
    """A network of four convolutions; [batch, 3, 224, 224] to [batch, 10]."""
    generator = np.random.default_rng(0)
    nodes, constants, last = [], [], "x"
    for number, (inputs, outputs) in enumerate(itertools.pairwise(_CHANNELS)):
        weights = generator.standard_normal((outputs, inputs, 3, 3)) / np.sqrt(9 * inputs)
        constants.append(numpy_helper.from_array(weights.astype(np.float32), f"w{number}"))
        names = [last, f"w{number}"], [f"c{number}"]
        nodes.append(helper.make_node("Conv", *names, strides=[2, 2], pads=[1] * 4))
        last = f"r{number}"
        nodes.append(helper.make_node("Relu", [f"c{number}"], [last]))
    head = generator.standard_normal((_CHANNELS[-1], 10)).astype(np.float32)
    constants.append(numpy_helper.from_array(head, "head"))
    nodes.append(helper.make_node("GlobalAveragePool", [last], ["pooled"]))
    nodes.append(helper.make_node("Flatten", ["pooled"], ["flat"]))
    nodes.append(helper.make_node("MatMul", ["flat", "head"], ["y"]))
    shapes = {"x": ["n", 3, _SIDE, _SIDE], "y": ["n", 10]}
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    ]
    graph = helper.make_graph(nodes, "network", ends[:1], ends[1:], constants)
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path


def _run(model: Path, images: list[Pixels]) -> float:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options)
    batch = np.zeros((1, 3, _SIDE, _SIDE), np.float32)
    return _cpu(lambda: [session.run(None, {"x": batch}) for _ in images])


def _score_images(model: Path, images: list[Pixels]) -> float:
    scores = ImageScores(ImageOptions("in", "out", score=f"best=onnx:{model}"))
    return _cpu(lambda: scores.rows(images, []))


if __name__ == "__main__":
    main()
