"""Environments of the peers: NAME.txt has the pinned packages of each, and why they are apart.

They lie in .peers, outside of .venv: PyTorch alone takes 7 GB, and peers ask for other versions of
the same libraries.
"""

from __future__ import annotations

from pathlib import Path

REQUIREMENTS = Path(__file__).parent
ALONE = ("dlio",)  # name everything that they need themselves


def environments() -> list[str]:
    """Their names."""
    return sorted(path.stem for path in REQUIREMENTS.glob("*.txt"))


def pinned(environment: str) -> dict[str, str]:
    """The version of each package that an environment names."""
    lines = (REQUIREMENTS / f"{environment}.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    return {name.split("[")[0].strip(): version.strip() for name, version in pairs}
