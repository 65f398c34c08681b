import keras
import numpy as np
import pytest
import tensorflow as tf

from shard_format import UsageError
from trainer import MODELS
from trainer.loop import Loop, StepOptions
from trainer.models import applications
from trainer.models.build import build_model
from trainer.models.heads import parts_for_training
from trainer.optimization import OPTIMIZERS
from trainer.precision import dtype_policy
from trainer.strategies import STRATEGIES


def noise(count, size):
    return np.random.default_rng(0).uniform(0, 255, (count, size, size, 3)).astype(np.float32)


@pytest.mark.parametrize(
    "name", ["resnet50", pytest.param("efficientnet_v2_b0", marks=pytest.mark.proof)]
)
def test_large_models_build_and_run(name):
    # build_model itself runs the network on two images
    with dtype_policy("mixed_bfloat16"):
        model = build_model(name, MODELS, (32, 32, 3), 7)
    assert (model.output.shape, model.output.dtype) == ((None, 7), "float32")


@pytest.mark.parametrize(
    "name", ["small_cnn", pytest.param("mobilenet_v3_small", marks=pytest.mark.proof)]
)
def test_small_models_take_a_step_in_mixed_precision(name):
    with dtype_policy("mixed_bfloat16"):
        model = build_model(name, MODELS, (64, 64, 3), 7)
    assert model.output.dtype == "float32"
    optimizer = OPTIMIZERS["adamw"](1e-3, 0.01)
    optimizer.build(model.trainable_variables)
    loop = Loop(STRATEGIES["default"](), model, optimizer, StepOptions(4))
    before = [weight.numpy() for weight in model.trainable_variables]
    batch = tf.data.Dataset.from_tensors((noise(4, 64), np.arange(4, dtype=np.int64)))
    # two steps: where a scale starts at 0, what is before it gets no gradient at the first one
    totals = loop.train(iter(batch.repeat()), 2, lambda step, totals: None)
    assert totals.bad_step == -1
    changed = [
        not np.array_equal(old, new.numpy())
        for old, new in zip(before, model.trainable_variables, strict=True)
    ]
    assert np.mean(changed) > 0.9


def test_every_network_of_keras_applications_has_a_name():
    """By the list of Keras itself, so that one that is new there is missed here."""
    theirs = {name for name, member in vars(keras.applications).items() if callable(member)}
    assert {constructor for constructor, _ in applications._NETWORKS.values()} == theirs
    own = {"small_cnn", "text_transformer", "causal_transformer"}
    assert set(MODELS) == own | set(applications.APPLICATIONS)


MODULES = {
    "to_one": ("mobilenet_v2", "resnet_v2", "xception", "nasnet", "inception_v3", "mobilenet"),
    "caffe": ("resnet", "vgg16", "vgg19"),
    "standardized": ("densenet",),
    "itself": ("convnext", "efficientnet", "efficientnet_v2", "mobilenet_v3"),
}


@pytest.mark.parametrize("scaling", list(MODULES))
def test_pixels_are_scaled_as_weights_of_keras_expect(scaling):
    pixels = noise(2, 4)
    inputs = keras.Input((4, 4, 3))
    own = keras.Model(inputs, keras.layers.Identity()(getattr(applications, f"_{scaling}")(inputs)))
    for module in MODULES[scaling]:
        expected = getattr(keras.applications, module).preprocess_input(pixels.copy())
        np.testing.assert_allclose(own(pixels), expected, atol=1e-4)


@pytest.mark.proof
@pytest.mark.parametrize("name", list(applications.APPLICATIONS))
def test_every_network_of_keras_applications_builds(name):
    size = 75 if name.startswith(("inception", "xception")) else 32
    model = build_model(name, MODELS, (size, size, 3), 5)
    assert model.output.shape == (None, 5)
    assert parts_for_training(model).activation == ""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet5", "Did you mean 'resnet50'?"),
        ("no.such.module:build", "No module 'no' "),
        ("tiny.deeper:build", "No module 'tiny.deeper' "),
        ("tiny:absent", "does not name a function: found nothing of that name in .*tiny.py"),
        ("tiny:not_callable", "does not name a function: found int in"),
        ("tiny:", "'tiny:' is not of the form package.module:function"),
        ("tiny:fails", "RuntimeError: the moon is full"),
        ("tiny:no_model", "returned list, not a keras.Model"),
        (
            "tiny:not_serializable",
            r"Keras cannot serialize the model: .* Give a layer of your own",
        ),
        ("tiny:one_too_many", r"to shape \(2, 4\), not \(2, 3\) with one column per class"),
    ],
)
def test_models_that_cannot_be_used_say_why(name, message):
    with pytest.raises(UsageError, match=message):
        build_model(name, MODELS, (8, 8, 3), 3)


def test_a_module_that_fails_while_it_is_imported_is_named(tmp_path, monkeypatch):
    (tmp_path / "broken_model.py").write_text("1 / 0\n")
    (tmp_path / "needy_model.py").write_text("import not_installed_anywhere\n")
    monkeypatch.chdir(tmp_path)  # found there, as for `shardmill train --model broken_model:f`
    with pytest.raises(
        UsageError, match="Importing broken_model failed with ZeroDivisionError: division by zero"
    ):
        build_model("broken_model:f", MODELS, (8, 8, 3), 3)
    with pytest.raises(UsageError, match="Importing needy_model failed: No module named 'not_ins"):
        build_model("needy_model:f", MODELS, (8, 8, 3), 3)


def test_half_precision_probabilities_are_refused_and_logits_are_lifted():
    with dtype_policy("mixed_float16"):
        with pytest.raises(
            UsageError, match="The last layer gives class probabilities as float16, not float32"
        ):
            build_model("tiny:half_softmax", MODELS, (8, 8, 3), 3)
        lifted = build_model("tiny:dense", MODELS, (8, 8, 3), 3)
    output = lifted(noise(2, 8), training=False)
    assert output.dtype.name == "float32"
    np.testing.assert_allclose(output.numpy().sum(axis=1), 1.0, atol=1e-6)


def test_a_image_that_is_too_small_is_refused():
    with pytest.raises(UsageError, match="--image-size may help"):
        build_model("mobilenet_v3_small", MODELS, (8, 8, 3), 3)


def test_building_puts_the_dtype_policy_back():
    with dtype_policy("mixed_float16"):
        assert keras.config.dtype_policy().name == "mixed_float16"
    assert keras.config.dtype_policy().name == "float32"
