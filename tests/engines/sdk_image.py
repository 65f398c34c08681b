"""Beam's container image without a container: a fresh environment with Beam, without shardmill."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
FILES = REPOSITORY / "samples" / "dataflow"
DOCKERFILE = FILES / "Dockerfile"

# Besides Beam, what is in the image and not in every new environment.
_IN_IMAGE = ("apache-beam", "setuptools", "wheel")
_SECONDS = 600  # for an installation on a loaded machine


def build_wheel(folder: Path) -> Path:
    """The wheel of the checkout, in a folder."""
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, f"--wheel-dir={folder}", str(REPOSITORY)], check=True, timeout=_SECONDS)
    (wheel,) = folder.glob("shardmill-*.whl")
    return wheel


class SdkImage:
    """An environment with what Beam's image has, in a folder; see `beam_python3.11_sdk`.

    Attributes:
        folder: Folder of everything that a container would have.
        python: Its interpreter.
        environment: Variables for a process in it: nothing of the checkout, and no package index.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "venv" / "bin" / "python"
        self.environment = {
            "PATH": f"{self.python.parent}:/usr/bin:/bin",
            "HOME": str(folder),
            "PIP_NO_INDEX": "1",
        }
        cache = subprocess.check_output([sys.executable, "-m", "pip", "cache", "dir"], text=True)
        self._index = {name: os.environ[name] for name in os.environ if name.startswith("PIP_")}
        self._index["PIP_CACHE_DIR"] = cache.strip()
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        constraints = f"--constraint={REPOSITORY / 'constraints.txt'}"
        self.run(f"pip install --quiet {constraints} {' '.join(_IN_IMAGE)}", index=True)

    def run(self, command: str, *, index: bool = False) -> str:
        """Runs a shell command; its output.

        Args:
            command: For `sh -c`.
            index: Whether pip may download packages.
        """
        environment = dict(self.environment)
        if index:
            del environment["PIP_NO_INDEX"]
            environment |= self._index
        done = subprocess.run(
            ["sh", "-e", "-c", command],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout

    def build(self, dockerfile: Path, context: Path) -> None:
        """Does what a Dockerfile says, but for what it takes from other images.

        Args:
            dockerfile: Its COPY steps copy into /opt/shardmill, here a folder of that name.
            context: Where the sources of COPY are.
        """
        text = dockerfile.read_text().replace("\\\n", " ")
        inside = self.folder / "shardmill"
        inside.mkdir()
        for step, rest in re.findall(r"^(COPY|RUN) (.+)$", text, re.MULTILINE):
            command = rest.replace("/opt/shardmill", str(inside)).replace("--no-cache-dir ", "")
            if step == "RUN":
                self.run(command, index=True)
            elif "--from=" not in rest:
                *sources, target = shlex.split(command)
                paths = [next(context.glob(source)) for source in sources]
                self.run(shlex.join(["cp", *map(str, paths), target]))
