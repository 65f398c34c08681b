"""Ten thousand damaged images: `python -m benchmarks.mutations SRC`.

Valid files of every format are created from the images in SRC, a copy of each is damaged by a
seeded random mutation, and `shardmill preprocess images` builds a set of them as class folders.
Requirements are checked: no crash, no hang, every file accounted for, and the bytes of every
quarantined file equal to the original. Results go to benchmarks/results/mutations.json.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.damage import MUTATIONS, good_files
from benchmarks.measure import machine

_HERE = Path(__file__).parent
_PHOTOGRAPHS = 8  # converted to every format
_PER_CLASS = 500  # files in a class folder
_TIMEOUT_SECONDS = 3600  # a build of 10,000 takes a minute or two
_MIB = 1 << 20


def write_corpus(
    source: Path, corpus: Path, count: int, seed: int, damaged: bool = True
) -> dict[str, int]:
    """Creates a corpus of damaged files, or valid ones; returns the number of each mutation.

    Args:
        source: Images, in any folders.
        corpus: A new folder; files become NUMBER-MUTATION.EXTENSION in class folders.
        count: The number of files.
        seed: The same seed and source give the same bytes, with the same Pillow.
        damaged: Whether to damage the files.
    """
    draw = random.Random(seed)
    photographs = sorted(path for path in source.rglob("*.jpg") if path.stat().st_size > 2000)
    formats = good_files(photographs[:: max(1, len(photographs) // _PHOTOGRAPHS)])
    kinds: collections.Counter[str] = collections.Counter()
    for number in range(count):
        name, data = draw.choice(formats)
        kind = draw.choice(list(MUTATIONS)) if damaged else "none"
        if damaged:
            data = MUTATIONS[kind](draw, data, draw.choice(formats)[1])
        if kind == "wrong_extension":
            name = draw.choice(formats)[0]
        folder = corpus / f"class{number // _PER_CLASS:03d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:06d}-{kind}.{name.split('-')[-1]}").write_bytes(data)
        kinds[kind] += 1
    return dict(sorted(kinds.items()))


def build(corpus: Path, out: Path, *options: str) -> dict[str, object]:
    """Runs the command and checks the ledger; returns counts, time and memory.

    Raises:
        SystemExit: A requirement is not met.
    """
    shutil.rmtree(out, ignore_errors=True)
    command = ["preprocess", "images", str(corpus), "--out", str(out), "--json"]
    command += ["--source", "class-folders", *options]
    done, peak, seconds = run_command(command)
    if done.returncode:
        raise SystemExit(
            f"the build must end well, got exit code {done.returncode}:\n{done.stderr}"
        )
    ledger = json.loads((out / "manifest.json").read_text())["ledger"]
    files = {
        path.relative_to(corpus).as_posix(): path for path in corpus.rglob("*") if path.is_file()
    }
    _check_accounts(ledger, files, out)
    return {**ledger, "seconds": round(seconds, 1), "peak_mib": round(peak / _MIB)}


def run_command(
    arguments: Sequence[str],
) -> tuple[subprocess.CompletedProcess[str], int, float]:
    """Runs shardmill in its own process; returns also its peak resident size in bytes, and seconds.

    A process has its own greatest size in /proc; ru_maxrss would start with that of its parent.
    """
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from cli.main import main\n"
        "code = 0\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    code = end.code or 0\n"
        "peak = Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0]\n"
        "print(f'peak {peak}', file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_SECONDS,
    )
    seconds = time.perf_counter() - begun
    peaks = [line for line in done.stderr.splitlines() if line.startswith("peak ")]
    return done, int(peaks[-1].split()[1]) << 10 if peaks else 0, seconds


def _check_accounts(ledger: dict[str, int], files: dict[str, Path], out: Path) -> None:
    parts = [ledger[name] for name in ("kept", "duplicates", "filtered", "quarantined")]
    if not ledger["read"] == sum(parts) == len(files):
        raise SystemExit(f"{len(files)} files must be accounted for, got {ledger}")
    quarantined = 0
    for part in sorted((out / "quarantine").glob("*.parquet")):
        for batch in pq.ParquetFile(part).iter_batches(64, columns=["record_id", "bytes"]):
            for row in batch.to_pylist():
                quarantined += 1
                if row["bytes"] != files[row["record_id"]].read_bytes():
                    raise SystemExit(
                        f"{row['record_id']} must be quarantined as it was, got others"
                    )
    if quarantined != ledger["quarantined"]:
        raise SystemExit(f"{ledger['quarantined']} must be in quarantine, got {quarantined}")


def main() -> None:
    """Builds both corpora, prints a table, writes the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutations", description=__doc__)
    parser.add_argument("source", type=Path, metavar="SRC", help="photographs, *.jpg in folders")
    parser.add_argument("--count", type=int, default=10_000, help="damaged files")
    parser.add_argument("--seed", type=int, default=0, help="of the damage")
    parser.add_argument("--work", type=Path, default=_HERE / ".work" / "mutations", help="scratch")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.work, ignore_errors=True)
    good, bad = arguments.work / "good", arguments.work / "bad"
    write_corpus(arguments.source, good, arguments.count, arguments.seed, damaged=False)
    kinds = write_corpus(arguments.source, bad, arguments.count, arguments.seed)
    results: dict[str, object] = {
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "command": f"python -m benchmarks.mutations --count {arguments.count} "
        f"--seed {arguments.seed} {arguments.source}",
        "mutations": kinds,
        # Copies are kept, so that both builds have the same number of images.
        "undamaged": build(good, arguments.work / "set", "--dedup", "off"),
        "damaged": build(bad, arguments.work / "set", "--dedup", "off"),
    }
    file = _HERE / "results" / "mutations.json"
    file.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
