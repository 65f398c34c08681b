"""Installs the peers: `make peers`, or `python -m benchmarks.peers [NAME ...]`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.peers import ALONE, REQUIREMENTS, environments


def main() -> None:
    """Makes each environment that is missing, or whose packages changed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(environments()))
    parser.add_argument("--folder", type=Path, default=Path(".peers"), help="where they are put")
    chosen = parser.parse_args()
    for name in chosen.names or environments():
        if name not in environments():
            raise SystemExit(f"No environment {name}. Pass some of {', '.join(environments())}.")
        _install(name, chosen.folder / name)


def _install(name: str, folder: Path) -> None:
    requirements = REQUIREMENTS / f"{name}.txt"
    installed = folder / "installed"
    if installed.exists() and installed.read_text() == requirements.read_text():
        return
    print(f"installing {name} into {folder}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
    options = ["--quiet", "--requirement", str(requirements)]
    subprocess.run([*pip, *options, *(["--no-deps"] if name in ALONE else [])], check=True)
    installed.write_text(requirements.read_text())


if __name__ == "__main__":
    main()
