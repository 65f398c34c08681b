"""For --setup_file: a package without code, whose dependencies workers install from a package index."""

from setuptools import setup

setup()  # pyproject.toml has the rest
