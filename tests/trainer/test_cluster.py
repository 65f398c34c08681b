"""TF_CONFIG as schedulers write it."""

import json

import pytest

from shard_format import UsageError
from trainer.workers.cluster import cluster_of_environment

TWO = {"worker": ["a:1", "b:2"]}
CHIEF = {"chief": ["c:0"]}
MASTER = {"master": ["c:0"], "ps": []}
PAIR = ("a:1", "b:2")
THREE = ("c:0", "a:1", "b:2")
NAMES = ("[::1]:7", "b.svc:2")


@pytest.fixture
def cluster_of(monkeypatch):
    def parse(cluster, kind="worker", index=0, **further):
        config = {"cluster": cluster, "task": {"type": kind, "index": index}, **further}
        monkeypatch.setenv("TF_CONFIG", json.dumps(config))
        return cluster_of_environment()

    return parse


@pytest.mark.parametrize(
    ("cluster", "task", "addresses", "index", "device"),
    [
        (TWO, ("worker", 1), ("a:1", "b:2"), 1, "/job:worker/replica:0/task:1"),
        (TWO, ("worker", "1"), ("a:1", "b:2"), 1, "/job:worker/replica:0/task:1"),
        # Kubeflow and Vertex AI
        ({**CHIEF, **TWO}, ("chief", 0), THREE, 0, "/job:chief/replica:0/task:0"),
        ({**CHIEF, **TWO}, ("worker", 0), THREE, 1, "/job:worker/replica:0/task:0"),
        # AI Platform, and jobs without a task
        ({**MASTER, **TWO}, ("master", 0), THREE, 0, "/job:chief/replica:0/task:0"),
        ({**TWO, "evaluator": ["e:5"]}, ("worker", 0), PAIR, 0, "/job:worker/replica:0/task:0"),
        (
            {"worker": ["[::1]:7", "b.svc:2"]},
            ("worker", 0),
            NAMES,
            0,
            "/job:worker/replica:0/task:0",
        ),
    ],
)
def test_clusters_of_schedulers(cluster_of, cluster, task, addresses, index, device):
    parsed = cluster_of(cluster, *task, environment="cloud", job={"job_id": "7"})
    assert (parsed.addresses, parsed.index) == (addresses, index)
    assert parsed.device_of(index) == device
    assert index not in parsed.others
    assert len(parsed.others) == len(addresses) - 1
    assert sum(map(len, parsed.jobs.values())) == len(addresses)


@pytest.mark.parametrize(
    ("cluster", "task", "fact"),
    [
        (None, ("worker", 0), 'no "cluster"'),
        ({}, ("worker", 0), "task worker 0 is not in its cluster"),
        (TWO, ("worker", 2), "task worker 2 is not in its cluster"),
        (TWO, ("chief", 0), "task chief 0 is not in its cluster"),
        (TWO, ("worker", -1), 'no "task"'),
        (TWO, (None, 0), 'no "task"'),
        (TWO, ("evaluator", 0), "this process is an evaluator"),
        ({**TWO, "ps": ["p:1"]}, ("worker", 0), "it has parameter servers"),
        ({**TWO, "boss": ["p:1"]}, ("worker", 0), "has the jobs worker, boss"),
        ({**TWO, "chief": ["x:1", "y:1"]}, ("worker", 0), "several chiefs"),
        ({"worker": ["a"]}, ("worker", 0), "'a' is not host:port"),
        ({"worker": ["a:1", "a:1"]}, ("worker", 0), "occurs twice in a:1, a:1"),
    ],
)
def test_what_is_no_cluster_is_refused_with_an_example(cluster_of, cluster, task, fact):
    with pytest.raises(UsageError, match="TF_CONFIG cannot be used: ") as error:
        cluster_of(cluster, *task)
    assert fact in str(error.value)
    assert '"task": {"type": "worker", "index": 0}' in str(error.value)


SERVED = {**CHIEF, **TWO, "ps": ["p:1", "p:2"]}


@pytest.mark.parametrize(
    ("task", "index", "name"),
    [
        (("chief", 0), 0, "the chief (c:0)"),
        (("worker", 1), 2, "worker 1 (b:2)"),
        (("ps", 1), 4, "parameter server 1 (p:2)"),
    ],
)
def test_clusters_with_parameter_servers(cluster_of, task, index, name):
    cluster_of(TWO)
    with pytest.raises(UsageError, match="need --strategy parameter_server"):
        cluster_of(SERVED, *task)
    cluster = cluster_of_environment("parameter_server")
    assert (cluster.index, cluster.name_of(index)) == (index, name)
    assert cluster.jobs == SERVED


@pytest.mark.parametrize("lacking", ["chief", "worker", "ps"])
def test_parameter_servers_need_a_chief_and_workers(cluster_of, monkeypatch, lacking):
    cluster = {job: hosts for job, hosts in SERVED.items() if job != lacking}
    config = {"cluster": cluster, "task": {"type": "ps", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with pytest.raises(UsageError, match=f"its cluster has no '{lacking}'.*\"ps\": "):
        cluster_of_environment("parameter_server")


@pytest.mark.parametrize(("text", "fact"), [("", "is not set"), ("{", "is not JSON"), ("7", "no")])
def test_a_variable_that_is_no_json_is_refused(monkeypatch, text, fact):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(UsageError, match=fact):
        cluster_of_environment()
