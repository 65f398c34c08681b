"""Proposals and early ends are functions of the trials so far."""

import hypothesis
import hypothesis.strategies as st
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from search.proposals import METHODS, num_trials
from search.pruners import PRUNERS
from search.space import Parameter, Space
from search.trials import Trial, best_trial, ranked

SPACE = Space(
    "space.yaml",
    None,
    {},
    (
        Parameter("optimizer", CategoricalDistribution(("adamw", "sgd", None))),
        Parameter("learning_rate", FloatDistribution(1e-4, 1e-1, log=True)),
        Parameter("batch_size", IntDistribution(8, 64, step=8)),
        Parameter("ema", FloatDistribution(0.5, 0.75, step=0.25), when={"optimizer": ("sgd",)}),
    ),
)
SMALL = Space(
    "s",
    None,
    {},
    (
        Parameter("seed", IntDistribution(0, 2)),
        Parameter("freeze", CategoricalDistribution((True, False))),
    ),
)


def cost(values):
    return abs(values["learning_rate"] - 0.01) + (values["optimizer"] != "sgd")


def searched(method, seed, count):
    trials = []
    for number in range(count):
        values = METHODS[method](SPACE, seed, number, trials)
        state = "diverged" if values["batch_size"] == 64 else "completed"
        measured = (cost(values),) if state == "completed" else ()
        trials.append(Trial(number, values, state, measured))
    return trials


@pytest.mark.parametrize("method", ["random", "bayesian"])
def test_the_same_seed_gives_the_same_trials_and_another_seed_others(method):
    trials = searched(method, 1, 12)
    assert trials == searched(method, 1, 12)
    assert trials != searched(method, 2, 12)
    for trial in trials:
        assert 1e-4 <= trial.options["learning_rate"] <= 1e-1
        assert trial.options["batch_size"] in range(8, 65, 8)
        assert ("ema" in trial.options) == (trial.options["optimizer"] == "sgd")
        assert trial.options.get("ema", 0.5) in (0.5, 0.75)


def test_a_bayesian_search_learns_from_its_trials():
    def mean(trials):
        return sum(cost(trial.options) for trial in trials[12:]) / len(trials[12:])

    assert mean(searched("bayesian", 0, 30)) < mean(searched("random", 0, 30)) / 2


@pytest.mark.parametrize("method", METHODS)
def test_no_trial_is_proposed_twice_and_a_finite_space_ends(method):
    trials = []
    while (values := METHODS[method](SMALL, 0, len(trials), trials)) is not None:
        trials.append(Trial(len(trials), values, "completed", (1.0,)))
    proposed = {tuple(trial.options.items()) for trial in trials}
    assert len(proposed) == len(trials) == 6 == num_trials(SMALL, method, 100)


def test_parallel_trials_differ():
    trials = [Trial(number, {"seed": number, "freeze": True}, "running") for number in range(2)]
    values = METHODS["bayesian"](SMALL, 0, 2, trials)
    assert values not in [trial.options for trial in trials]


def completed(*costs):
    return [Trial(number, {}, "completed", values) for number, values in enumerate(costs)]


def test_the_median_ends_what_is_worse_than_half_at_the_same_epoch():
    others = completed((1.0, 0.5), (2.0, 0.6), (3.0, 0.7), (4.0, 0.8))
    prune = PRUNERS["median"]
    assert prune([3.0], others, 4)
    assert not prune([2.4], others, 4)
    assert not prune([0.1, 9.0], others, 4)  # its best epoch counts, which best.keras keeps
    assert not prune([3.0], others, 8)  # a fourth of the epochs comes first
    assert prune([3.0, 3.0], others, 8)
    assert not prune([9.0], others[:3], 4)  # too few to say


def test_halving_passes_the_best_third_at_its_rungs():
    others = completed((1.0,) * 3, (2.0,) * 3, (3.0,) * 3, (4.0,) * 3, (5.0,) * 3)
    prune = PRUNERS["halving"]
    assert prune([2.5], others, 10)
    assert not prune([1.5], others, 10)
    assert not prune([9.0, 9.0], others, 10)  # epoch 2 is no rung
    assert prune([9.0, 9.0, 9.0], others, 10)
    assert not prune([9.0], [], 10)


@hypothesis.given(
    st.lists(st.lists(st.floats(0, 10), min_size=1, max_size=9), max_size=8),
    st.lists(st.floats(0, 10), min_size=1, max_size=9),
    st.sampled_from(list(PRUNERS)),
)
def test_the_best_trial_is_never_ended_early(others, costs, name):
    others = completed(*map(tuple, others))
    best = min(min(trial.costs) for trial in others) if others else 10.0
    assert not PRUNERS[name]([*costs, min(best, *costs)], others, 10)


def test_of_accuracies_the_greatest_is_the_best():
    trials = [
        Trial(0, {}, "completed", (0.2, 0.9, 0.4), is_loss=False),
        Trial(1, {}, "completed", (0.5, 0.8), is_loss=False),
        Trial(2, {}, "pruned", (0.95,), is_loss=False),
    ]
    assert best_trial(trials) is trials[0]
    assert (trials[0].value, trials[0].best_epoch) == (0.9, 2)
    assert [trial.number for trial in ranked(trials[::-1])] == [0, 1, 2]
