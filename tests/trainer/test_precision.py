"""What `--precision auto` means on a machine."""

from __future__ import annotations

import pytest
import tensorflow as tf

from shard_format import UsageError
from trainer import precision

MILAN = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu sse2 avx avx2 fma\n"
GENOA = "processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_bf16 avx512_vbmi2\nbogomips\t: 1\n"
GRAVITON = "processor\t: 0\nFeatures\t: fp asimd sve bf16 i8mm\nCPU part\t: 0xd40\n"


@pytest.mark.parametrize(
    ("said", "expected"),
    [(MILAN, False), (GENOA, True), (GRAVITON, True), ("", False), ("flags\n", False)],
)
def test_a_cpu_has_bfloat16_if_it_says_so(tmp_path, said, expected):
    file = tmp_path / "cpuinfo"
    file.write_text(said)
    assert precision.cpu_has_bfloat16(file) is expected


def test_a_system_without_that_file_counts_as_without(tmp_path):
    assert not precision.cpu_has_bfloat16(tmp_path / "absent")


@pytest.mark.parametrize("strategy", ["default", "central_storage", "parameter_server"])
@pytest.mark.parametrize(("has", "policy"), [(True, "mixed_bfloat16"), (False, "float32")])
def test_auto_goes_by_the_cpu_where_there_is_no_gpu(monkeypatch, strategy, has, policy):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    monkeypatch.setattr(precision, "cpu_has_bfloat16", lambda: has)
    assert precision.resolve("auto", strategy) == policy
    assert precision.resolve("auto", "tpu") == "mixed_bfloat16"


@pytest.mark.parametrize(("capability", "policy"), [((8, 0), "mixed_float16"), ((6, 1), "float32")])
def test_auto_goes_by_the_oldest_gpu(monkeypatch, capability, policy):
    capabilities = iter([(9, 0), capability])
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["one", "other"])
    monkeypatch.setattr(
        tf.config.experimental,
        "get_device_details",
        lambda gpu: {"compute_capability": next(capabilities)},
    )
    assert precision.resolve("auto") == policy
    assert precision.resolve("auto", "central_storage") == "mixed_bfloat16"


def test_what_is_asked_for_is_taken(monkeypatch):
    monkeypatch.setattr(precision, "cpu_has_bfloat16", lambda: False)
    assert precision.resolve("mixed_bfloat16") == "mixed_bfloat16"
    assert precision.resolve("mixed_float16", "mirrored") == "mixed_float16"
    with pytest.raises(UsageError, match="mixed_float16 does not work with --strategy tpu"):
        precision.resolve("mixed_float16", "tpu")
