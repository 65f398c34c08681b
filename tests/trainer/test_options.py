import pytest

from shard_format import UsageError


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "small_cn"}, "Did you mean 'small_cnn'?"),
        ({"optimizer": "adam"}, "Did you mean 'adamw'?"),
        ({"precision": "mixed_fp16"}, "Did you mean 'mixed_float16'?"),
        ({"strategy": "horovod"}, "--strategy must be one of default, mirrored, got 'horovod'"),
        ({"epochs": 0}, "--epochs must be at least 1, got 0"),
        ({"epochs": 2.5}, r"--epochs must be a whole number, got 2\.5"),
        ({"epochs": "3"}, "--epochs must be a whole number, got 3"),
        ({"batch_size": 8.0}, r"--batch-size must be a whole number, got 8\.0"),
        ({"keep_checkpoints": True}, "--keep-checkpoints must be a whole number, got True"),
        ({"seed": 1.5}, r"--seed must be a whole number, got 1\.5"),
        ({"batch_size": -1}, "--batch-size must be at least 1, got -1"),
        ({"image_size": 0}, "--image-size must be at least 1, got 0"),
        ({"keep_checkpoints": 0}, "--keep-checkpoints must be at least 1, got 0"),
        ({"learning_rate": 0.0}, "--learning-rate must be above 0 and finite, got 0.0"),
        ({"learning_rate": float("nan")}, "got nan"),
        ({"weight_decay": -0.1}, "--weight-decay must be at least 0, got -0.1"),
        ({"label_smoothing": 1.0}, r"--label-smoothing must lie in \[0, 1\), got 1.0"),
        ({"warmup_epochs": -1.0}, "--warmup-epochs must be at least 0, got -1.0"),
        ({"seed": -1}, r"--seed must lie in \[0, 2\*\*32\), got -1"),
    ],
)
def test_wrong_options_are_refused(options, changes, message):
    with pytest.raises(UsageError, match=message):
        options(**changes)


def test_identity_holds_what_a_run_means_and_not_where_it_lies(options):
    same = {"data": "elsewhere", "run_dir": "there", "strategy": "mirrored", "cache": "off"}
    assert options(**same).identity() == options().identity()
    assert options(seed=1).identity() != options().identity()
    assert options(epochs=9).identity() != options().identity()
