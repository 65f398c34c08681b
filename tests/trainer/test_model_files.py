"""`.keras` files that cannot be loaded: each with what is wrong, and none runs its code."""

from __future__ import annotations

import json
import zipfile

import keras
import pytest

from shard_format import InputError
from trainer.model_files import load_model


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.keras"
    inputs = keras.Input((4,))
    keras.Model(inputs, keras.layers.Dense(2)(inputs)).save(path)
    return path


def _with_config(whole, path, change):
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "config.json":
                content = change(json.loads(content))
            if content is not None:
                target.writestr(name, content)
    return path


def _dense(config):
    return next(one for one in config["config"]["layers"] if one["class_name"] == "Dense")


def _lambda(config):
    code = {"class_name": "__lambda__", "config": {"code": "4wAAAAA=", "defaults": None}}
    own = {"module": "keras.layers", "class_name": "Lambda", "registered_name": None}
    _dense(config).update(own, config={"name": "own", "function": code})
    return json.dumps(config).encode()


def _own(config):
    _dense(config).update(module="layers_of_mine.more", class_name="Mine", registered_name="Mine")
    return json.dumps(config).encode()


def _function(config):
    own = {"module": "subprocess", "class_name": "Popen", "registered_name": None}
    _dense(config).update(own, config={"args": ["touch", "ran"]})
    return json.dumps(config).encode()


CASES = {
    "lambda": (_lambda, r"holds a Lambda layer, which is Python code in the file; it is not run"),
    "own layer": (_own, r"needs the module layers_of_mine\.more, which cannot be imported\. Put"),
    "a function": (_function, r"Keras cannot load"),
    "no config": (lambda config: None, r"is a zip archive without config\.json"),
    "no JSON": (lambda config: b"{", r"config\.json in .* cannot be read"),
    "deep JSON": (lambda config: b"[" * 10**6, r"config\.json in .* cannot be read"),
    "a list": (lambda config: b"[]", r"Keras cannot load"),
    "a bomb": (lambda config: bytes(70 << 20), r"unpacks to 73400320 bytes"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_named_and_nothing_runs(whole, tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    change, message = CASES[case]
    path = _with_config(whole, tmp_path / "model.keras", change)
    with pytest.raises(InputError, match=message) as error:
        load_model(path)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "ran").exists()


def test_files_that_are_no_archive(whole, tmp_path):
    content, path = whole.read_bytes(), tmp_path / "model.keras"
    middle = content.index(b"model.weights.h5") + 200
    for damaged, message in (
        (content[: len(content) // 2], "is cut: the end of the archive is missing"),
        (b"", "is no .keras file: it is no zip archive"),
        (b"<html>", "is no .keras file: it is no zip archive"),
        (content[:middle] + b"####" + content[middle + 4 :], "does not match its checksum"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=message):
            load_model(path)
