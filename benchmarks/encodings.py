"""Detectors of character encodings, on texts of 30 languages in 42 encodings.

`python -m benchmarks.encodings DETECTOR... [--declarations DIR]` adds a row for each detector to
benchmarks/results/encodings.json; with none it prints the table. Texts are translations of the
interface of Django (the package django), and the Declaration of Human Rights (DIR: the package udhr
of NLTK). A result is right if the decoded text is.

For another version of a detector, PYTHONPATH names the folder of a `pip install --target`.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from benchmarks.encoded_texts import SIZES, Sample, declarations, messages, samples
from benchmarks.measure import machine

_SEED = 3
_RESULTS = Path(__file__).parent / "results" / "encodings.json"
# The text of some bytes, or None if the detector knows none.
Detector = Callable[[bytes], str | None]


def _shardmill() -> Detector:
    from beam_jobs.corpus.encodings import decode
    from beam_jobs.corpus.record import Rejection

    def text(data: bytes) -> str | None:
        try:
            return decode(data, "auto")[0]
        except Rejection:
            return None

    return text


def _chardet() -> Detector:
    import chardet

    every = {}
    if hasattr(chardet, "EncodingEra"):  # from version 6 on; without it only those of the web
        every = {"encoding_era": chardet.EncodingEra.ALL}
    return _decoding(lambda data: chardet.detect(data, **every)["encoding"])


def _charset_normalizer() -> Detector:
    import charset_normalizer

    def name(data: bytes) -> str | None:
        best = charset_normalizer.from_bytes(data).best()
        return best.encoding if best else None

    return _decoding(name)


def _cchardet() -> Detector:
    import cchardet

    return _decoding(lambda data: cchardet.detect(data)["encoding"])


def _resiliparse() -> Detector:
    from resiliparse.parse.encoding import detect_encoding

    return _decoding(detect_encoding)


def _chardetng() -> Detector:
    import chardetng_py

    return _decoding(chardetng_py.detect)


def _icu() -> Detector:
    import icu

    return _decoding(lambda data: icu.CharsetDetector(data).detect().getName())


DETECTORS = {
    "shardmill": (_shardmill, "chardet"),
    "chardet": (_chardet, "chardet"),
    "charset-normalizer": (_charset_normalizer, "charset-normalizer"),
    "faust-cchardet": (_cchardet, "faust-cchardet"),
    "resiliparse": (_resiliparse, "resiliparse"),
    "chardetng-py": (_chardetng, "chardetng-py"),
    "PyICU": (_icu, "pyicu"),
}


def main() -> None:
    """Runs detectors, adds their results, prints all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("detectors", nargs="*", choices=[*DETECTORS, []])
    parser.add_argument("--declarations", type=Path, help="folder of NLTK's package udhr")
    arguments = parser.parse_args()
    results = json.loads(_RESULTS.read_text()) if _RESULTS.exists() else {"detectors": {}}
    for name in arguments.detectors:
        load, package = DETECTORS[name]
        version = importlib.metadata.version(package)
        row = f"{name}, chardet {version}" if name == "shardmill" else f"{name} {version}"
        results["detectors"][row] = _measured(load(), arguments.declarations)
        results |= {"seed": _SEED, "date": datetime.date.today().isoformat(), "machine": machine()}
        _RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    for row, found in results["detectors"].items():
        for source, sizes in found.items():
            shares = (
                f"{size} B: {one['right']:.1%} right, {one['wrong']:.1%} wrong, {one['ms']} ms"
                for size, one in sizes.items()
            )
            print(f"{row}, {source}: {'; '.join(shares)}")


def _measured(detect: Detector, folder: Path | None) -> dict[str, object]:
    import django

    texts = {"django": messages(Path(django.__file__).parent)}
    if folder is not None:
        texts["declarations"] = declarations(folder)
    found = {}
    for source, of_languages in texts.items():
        drawn = list(samples(of_languages, _SEED))
        found[source] = {
            str(size): _of_size(detect, [one for one in drawn if one.size == size])
            for size in SIZES
        }
    return found


def _of_size(detect: Detector, drawn: list[Sample]) -> dict[str, object]:
    """Shares over encodings, each of which counts the same; `none` was not decoded.

    Of every encoding: right, wrong, none.
    """
    outcomes: dict[str, list[str]] = defaultdict(list)
    begun = time.process_time()
    for sample in drawn:
        text = detect(sample.data)
        kind = "none" if text is None else "right" if text == sample.text else "wrong"
        outcomes[sample.encoding].append(kind)
    seconds = time.process_time() - begun

    def share(kind: str, encodings: dict[str, list[str]]) -> float:
        return sum(one.count(kind) / len(one) for one in encodings.values()) / len(encodings)

    return {
        "samples": len(drawn),
        **{kind: round(share(kind, outcomes), 4) for kind in ("right", "wrong", "none")},
        "ms": round(1000 * seconds / len(drawn), 2),
        "encodings": {
            name: " ".join(
                f"{share(kind, {name: kinds}):.3f}" for kind in ("right", "wrong", "none")
            )
            for name, kinds in outcomes.items()
        },
    }


def _decoding(name_of: Callable[[bytes], str | None]) -> Detector:
    def text(data: bytes) -> str | None:
        name = name_of(data)
        try:
            return data.decode(name).removeprefix("\ufeff") if name else None
        except (LookupError, UnicodeError):
            return None

    return text


if __name__ == "__main__":
    main()
