"""The file of a space: what it may say, and the messages where it is wrong."""

import itertools

import pytest

from search.proposals import METHODS, num_trials
from search.space_file import read_space
from shard_format import InputError, UsageError


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "space.yaml"
        path.write_text(text)
        return read_space(str(path))

    return read


def test_scalars_are_what_their_options_are_and_not_what_yaml_makes_of_them(read):
    space = read(
        "data: set\nepochs: 4\nlearning-rate: 1e-4\ncache: off\nclass-weights: true\n"
        "clip_norm: null\naugment: [none, standard]\nlabel: no\n"
    )
    assert space.data == "set"
    assert space.fixed == {
        "epochs": 4,
        "learning_rate": 1e-4,
        "cache": "off",
        "class_weights": True,
        "clip_norm": None,
        "label": "no",
    }
    assert space.parameters[0].choices == ("none", "standard")


def test_a_value_that_is_listed_twice_counts_once(read):
    (parameter,) = read("optimizer: [sgd, adamw, sgd]").parameters
    assert parameter.choices == ("sgd", "adamw")


def test_a_list_may_hold_the_absence_of_an_option(read):
    (parameter,) = read("ema: [null, 0.99]").parameters
    assert parameter.choices == (None, 0.99)


def test_a_grid_has_all_combinations_and_the_last_option_changes_fastest(read):
    space = read("optimizer: [adamw, sgd]\nbatch-size: {low: 16, high: 64, log: true, points: 3}")
    assert [tuple(values.values()) for values in space.grid()] == [
        *itertools.product(["adamw", "sgd"], [16, 32, 64])
    ]


def test_the_points_of_a_range_begin_and_end_with_its_bounds(read):
    (parameter,) = read("learning-rate: {low: 1e-4, high: 1e-2, log: true, points: 3}").parameters
    assert parameter.grid() == (1e-4, pytest.approx(1e-3), 1e-2)
    (parameter,) = read("weight-decay: {low: 0, high: 0.3, step: 0.1}").parameters
    assert parameter.grid() == pytest.approx((0, 0.1, 0.2, 0.3))
    (parameter,) = read("epochs: {low: 2, high: 4}").parameters
    assert parameter.grid() == (2, 3, 4)


def test_an_option_with_a_condition_has_a_value_only_where_that_holds(read):
    space = read(
        "warmup-epochs: {low: 0, high: 2, step: 1, when: {schedule: [cosine, constant]}}\n"
        "schedule: [cosine, one_cycle, constant]"
    )
    points = [tuple(values.items()) for values in space.grid()]
    assert len(points) == 7
    assert (("schedule", "one_cycle"),) in points


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lerning-rate: [1e-3, 1e-2]", "Did you mean 'learning-rate'?"),
        ("epochs: 3", "varies nothing"),
        ("", "has no options"),
        ("- a", "has no options"),
        ("a: [", "line 1 is not YAML"),
        ("optimizer: [adamw, sdg]", "Did you mean 'sgd'?"),
        ("optimizer: []", "needs a list of values"),
        ("optimizer: {low: 1, high: 2}", "has no numbers"),
        ("epochs: 3\nbatch-size: [1]\nepochs: 4", "repeats 'epochs'"),
        ("learning-rate: {low: 0, high: 1}", "is 0.0. Pass a finite number above 0"),
        ("label-smoothing: {low: 0, high: 1}", "is 1.0. Pass"),
        ("learning-rate: {low: 1e-2, high: 1e-3}", "is no range"),
        ("learning-rate: {low: 1e-2}", "without bounds. Write 'low' and 'high'"),
        ("learning-rate: {min: 1e-4, high: 1e-2}", "Unknown 'min' of learning-rate"),
        ("learning-rate: {low: 1e-4, high: 1e-2, logg: true}", "Did you mean 'log'?"),
        ("learning-rate: {low: 1e-4, high: 1e-2, log: 1}", "is '1'. Write true or false"),
        ("weight-decay: {low: 0, high: 1, log: true}", "is no range"),
        ("weight-decay: {low: 0, high: 1, step: 2}", "has one value only"),
        ("weight-decay: {low: 0, high: 1, step: 0.5, points: 3}", "points or a step, not both"),
        ("weight-decay: {low: 0, high: 1, points: 2.5}", "is '2.5'. Write an integer"),
        ("weight-decay: {choices: [0, 1], low: 0}", "needs a list of values and no range"),
        ("batch-size: {low: 1.5, high: 3}", "is '1.5'. Write an integer"),
        ("batch-size: [16, many]", "Write an integer"),
        ("monitor: [loss, accuracy]", "cannot be compared"),
        ("cache: [off, disk]", "does not change what a trial learns"),
        ("run-dir: x", "Pass --run-dir on the command line"),
        ("local-workers: 2", "Pass --parallel on the command line"),
        ("optimizer: [sgd, lion]\nmodel: smal_cnn", "Did you mean 'small_cnn'?"),
        ("schedule: [one_cycle, cosine]\nwarmup-epochs: 2", "such as 'when: {schedule"),
        ("optimizer: [sgd]\nema: {choices: [0.9], when: {epochs: 2}}", "no list of values"),
        ("optimizer: [sgd]\nema: {choices: [0.9], when: {optimizer: lion}}", "not in its list"),
        ("ema: {choices: [0.9], when: sgd}", "is not a condition"),
        ("? [a]\n: 1", "a key that is not a name"),
        ("data: [a, b]\noptimizer: [sgd]", "data in"),
        ("class-weights: [true, maybe]", "Write true or false"),
        ("optimizer:\n- a: 1", "is not one value"),
        ('weights: ["a\\0b", c]', "zero byte"),
        ("seed: 1\n---\nseed: 2", "is not YAML"),
    ],
)
def test_mistakes_are_named(read, text, message):
    with pytest.raises(UsageError) as error:
        read(text)
    assert message in str(error.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_space(str(tmp_path / "none.yaml"))
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"is not UTF-8 \(byte 0\)"):
        read_space(str(tmp_path / "bytes.yaml"))
    with pytest.raises(InputError, match="larger"):
        read_space("/dev/zero")


@pytest.mark.parametrize(
    "text",
    [
        "seed: {low: 0, high: 4294967295}",
        "learning-rate: {low: 1e-4, high: 1e-2, points: 1000000000000}",
        "weight-decay: {low: 0, high: 0.5, step: 1e-12}",
        "learning-rate: {low: 1e-4, high: 1e-2, points: 100000000000000000000}",
        "seed: {low: 1, high: 400}\nbatch-size: {low: 1, high: 400}",
    ],
)
def test_a_grid_without_end_is_refused_at_once(read, text):
    with pytest.raises(UsageError, match=r"100000.* use --method random or bayesian"):
        num_trials(read(text), "grid", 20)
    assert num_trials(read(text), "random", 20) == 20


def test_options_are_drawn_from_a_range_of_many_steps(read):
    space = read("weight-decay: {low: 0, high: 0.5, step: 1e-9}")
    values = METHODS["random"](space, 1, 0, [])
    assert 0 <= values["weight_decay"] <= 0.5
