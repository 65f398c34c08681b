"""samples/kubernetes: valid to the letter, and commands that give every pod its place."""

import json
import os
import re
import shlex
import subprocess

import kubernetes_validate
import pytest
import yaml

from cli.commands.serve import serve
from cli.commands.train import train
from trainer.workers.cluster import cluster_of_environment

FILES = ("multi-worker.yaml", "parameter-server.yaml", "data-service.yaml")
VERSIONS = ("1.33", "1.37")  # successPolicy is stable since the first; the last of the package
PRINTS = '#!/bin/sh\nprintf "%s\\n%s\\n" "${TF_CONFIG-}" "$*"\n'


@pytest.fixture
def manifests(repository):
    def read(name):
        text = (repository / "samples" / "kubernetes" / name).read_text(encoding="utf-8")
        return list(yaml.safe_load_all(text))

    return read


@pytest.fixture
def run_pod(tmp_path):
    """(TF_CONFIG, arguments of shardmill) of a pod, by its command run in a shell."""
    program = tmp_path / "shardmill"
    program.write_text(PRINTS)
    program.chmod(0o755)

    def run(workload, **own):
        container = workload["spec"]["template"]["spec"]["containers"][0]
        given = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
        done = subprocess.run(
            [expanded(part, {**given, **own}) for part in container["command"]],
            env={"PATH": f"{tmp_path}{os.pathsep}{os.defpath}", **given, **own},
            capture_output=True,
            text=True,
            check=True,
        )
        config, arguments = done.stdout.splitlines()
        return config, shlex.split(arguments)

    return run


def expanded(text, variables):
    """What Kubernetes does to a command: $(NAME) is replaced if there is such a variable."""

    def value(found):
        return "$" if found[0] == "$$" else variables.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", value, text)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", FILES)
def test_manifests_are_valid(manifests, name, version):
    service, workload = manifests(name)
    for manifest in (service, workload):
        kubernetes_validate.validate(manifest, version, strict=True)
    pod = workload["spec"]["template"]
    selected = service["spec"]["selector"].items()
    # A Job labels its pods with its own name.
    labels = {"job-name": workload["metadata"]["name"]} | pod.get("metadata", {}).get("labels", {})
    assert selected <= labels.items()
    assert service["spec"]["clusterIP"] == "None"
    ports = [port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]]
    assert ports == [port["port"] for port in service["spec"]["ports"]]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "completionmode"), "Indexed"),
        (("spec", "completions"), "4"),
        (("spec", "template", "spec", "restartPolicy"), None),
        (("spec", "template", "spec", "containers"), [{"image": "x"}]),
        (("spec", "template", "spec", "volumes"), [{"name": "d", "persistentVolumeClaim": {}}]),
    ],
)
def test_the_validation_finds_mistakes(manifests, path, value):
    _, job = manifests("multi-worker.yaml")
    *parents, last = path
    part = job
    for name in parents:
        part = part[name]
    part[last] = {"of": "another type"} if value is None else value
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, VERSIONS[-1], strict=True)


@pytest.mark.parametrize(
    ("name", "strategy", "roles"),
    [
        ("multi-worker.yaml", "multi_worker", {"worker": 4}),
        ("parameter-server.yaml", "parameter_server", {"chief": 1, "worker": 3, "ps": 2}),
    ],
)
def test_every_pod_of_a_job_has_its_task(manifests, run_pod, monkeypatch, name, strategy, roles):
    service, job = manifests(name)
    spec, names = job["spec"], job["metadata"]["name"]
    assert spec["completions"] == spec["parallelism"] == sum(roles.values())
    assert spec["template"]["spec"]["subdomain"] == service["metadata"]["name"]
    tasks = [(role, number) for role, count in roles.items() for number in range(count)]
    for index, task in enumerate(tasks):
        config, arguments = run_pod(job, JOB_COMPLETION_INDEX=str(index))
        monkeypatch.setenv("TF_CONFIG", config)
        cluster = cluster_of_environment(strategy)
        assert cluster.tasks == tuple(tasks)
        assert cluster.tasks[cluster.index] == task
        # What Kubernetes calls the pods of an Indexed Job under a headless service.
        assert cluster.addresses == tuple(
            f"{names}-{number}.{service['metadata']['name']}:2222" for number in range(len(tasks))
        )
        assert set(json.loads(config)) == {"cluster", "task"}
        command, *rest = arguments
        assert command == "train"
        assert train.make_context("train", rest).params["strategy"] == strategy


def test_pods_of_the_data_service_join_the_first(manifests, run_pod):
    service, pods = manifests("data-service.yaml")
    name, domain = pods["metadata"]["name"], service["metadata"]["name"]
    assert pods["spec"]["serviceName"] == domain
    for index in range(pods["spec"]["replicas"]):
        _, (command, *rest) = run_pod(pods, POD=f"{name}-{index}")
        assert command == "serve"
        options = serve.make_context("serve", rest).params
        assert options["host"] == f"{name}-{index}.{domain}"
        assert options["workers"] == 8
        joined = None if index == 0 else f"grpc://{name}-0.{domain}:{options['port']}"
        assert options["join"] == joined
        assert (options["journal"] is None) == (index > 0)


def test_the_readme_names_files_and_jobs_that_are_there(repository, manifests):
    folder = repository / "samples" / "kubernetes"
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"[\w-]+\.yaml", text)) == set(FILES)
    assert {path.name for path in folder.glob("*.yaml")} == set(FILES)
    jobs = {manifests(name)[1]["metadata"]["name"] for name in FILES}
    assert set(re.findall(r"job/([\w-]+)", text)) <= jobs
    for path in re.findall(r"samples/kubernetes/[\w.-]+", text):
        assert (repository / path).exists()
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert (folder / link).resolve().exists()
