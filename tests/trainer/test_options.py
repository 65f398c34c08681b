import pytest

from shard_format import UsageError
from trainer.options import flags_of


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "small_cn"}, "Did you mean 'small_cnn'?"),
        ({"optimizer": "adam"}, "Did you mean 'adamw'?"),
        ({"precision": "mixed_fp16"}, "Did you mean 'mixed_float16'?"),
        ({"strategy": "horovod"}, "Unknown --strategy 'horovod'. Choices: default, mirrored"),
        ({"epochs": 0}, "--epochs is 0. Pass an integer of at least 1"),
        ({"epochs": 2.5}, r"--epochs is 2\.5. Pass an integer"),
        ({"epochs": "3"}, "--epochs is '3'. Pass an integer"),
        ({"batch_size": 8.0}, r"--batch-size is 8\.0. Pass an integer"),
        ({"keep_checkpoints": True}, "--keep-checkpoints is True. Pass an integer"),
        ({"seed": 1.5}, r"--seed is 1\.5. Pass an integer"),
        ({"batch_size": -1}, "--batch-size is -1. Pass an integer of at least 1"),
        ({"image_size": 0}, r"--image-size is 0. Pass an integer in \[1, 16384\]"),
        ({"keep_checkpoints": 0}, "--keep-checkpoints is 0. Pass an integer of at least 1"),
        ({"learning_rate": 0.0}, "--learning-rate is 0.0. Pass a finite number above 0"),
        ({"learning_rate": float("nan")}, "--learning-rate is nan"),
        ({"weight_decay": -0.1}, "--weight-decay is -0.1. Pass a finite number of at least 0"),
        ({"label_smoothing": 1.0}, r"--label-smoothing is 1.0. Pass a finite number in \[0, 1\)"),
        ({"warmup_epochs": -1.0}, "--warmup-epochs is -1.0. Pass a finite number of at least 0"),
        ({"seed": -1}, r"--seed is -1. Pass an integer in \[0, 4294967295\]"),
    ],
)
def test_wrong_options_are_refused(options, changes, message):
    with pytest.raises(UsageError, match=message):
        options(**changes)


def test_identity_holds_what_a_run_means_and_not_where_it_is(options):
    same = {"data": "elsewhere", "run_dir": "there", "strategy": "mirrored", "cache": "off"}
    assert options(**same).identity() == options().identity()
    assert options(seed=1).identity() != options().identity()
    assert options(epochs=9).identity() != options().identity()


def test_values_become_flags():
    values = {"epochs": 3, "freeze": True, "jit": False, "ema": None}
    assert flags_of(values) == {"--epochs": "3", "--freeze": ""}
    assert flags_of({"sync_batch_norm": True}) == {"--sync-batch-norm": ""}
    assert flags_of({"sync_batch_norm": False}) == {"--no-sync-batch-norm": ""}
