"""Jobs for Dataflow, up to Google's door: submitted to a stand-in for its service, then run.

The launcher stages the graph and the packages to a bucket of an emulator and sends the job to a
server that only keeps it. The very graph that was staged is then run on Prism, by workers that
Beam's own boot program installs from the staged packages.
"""

from __future__ import annotations

import base64
import bz2
import contextlib
import json
import os
import re
import shlex
import shutil
from pathlib import Path

import apache_beam
import pytest
from apache_beam.portability.api import beam_runner_api_pb2
from google.protobuf import json_format, struct_pb2

from beam_jobs import ImageOptions, TextOptions, preprocess
from foundation import storage
from shard_format import load_manifest
from tests.engines.dataflow_launcher import BUCKET, SECRET, Launcher, options_of
from tests.engines.dataflow_service import DataflowService
from tests.engines.fetch import fetched
from tests.engines.jobs import wait_until
from tests.engines.processes import free_port, listens, processes
from tests.engines.sdk_image import DOCKERFILE, FILES, SdkImage, build_wheel
from tests.engines.staged_graph import fetch_packages, run_pipeline, with_worker_pool
from tests.servers.fake_gcs import fake_gcs, make_bucket

pytest.importorskip(
    "google.cloud.dataflow_v1beta3", reason="needs: pip install 'shardmill[dataflow]'"
)
pytestmark = [pytest.mark.engine, pytest.mark.timeout(3000)]

DATA = "gs://bkt-data"
REPOSITORY = Path(__file__).parents[2]
IMAGE = "us-central1-docker.pkg.dev/my-project-1/shardmill/shardmill:0.1.0"
STEPS = ["ListUnits", "SpreadUnits", "StageUnits"]
STEPS += ["PlanShards", "PlanMerge1", "SpreadMerge1", "Merge1", "PlanMergedShards"]
STEPS += ["SpreadShards", "WriteShards", "PlanParts", "SpreadParts", "WriteParts", "Commit"]
FROM_THE_BUILD = [
    "ListUnits",
    "PlanShards",
    "PlanMerge1",
    "PlanMergedShards",
    "PlanParts",
    "Commit",
]
SETTINGS = [
    "--worker_machine_type=n2-standard-4",
    "--max_num_workers=20",
    "--disk_size_gb=60",
    "--number_of_worker_harness_threads=4",
    "--service_account_email=shardmill@my-project-1.iam.gserviceaccount.com",
    "--no_use_public_ips",
    "--labels=team=vision",
    "--experiments=an_experiment",
    "--dataflow_service_options=enable_prime",
]


PAGE = (REPOSITORY / "docs" / "dataflow.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ ((?:.*\\\n)*.*)$", PAGE, re.MULTILINE)


def of_the_page(flag: str) -> list[str]:
    """The arguments of the one command in docs/dataflow.md with a flag."""
    (command,) = (each for each in COMMANDS if f"--{flag}" in each)
    values = {"PROJECT": "my-project-1", "REGION": "us-central1", "BUCKET": "bkt-data"}
    values |= {"WORKER": "worker@my-project-1.iam.gserviceaccount.com", "IMAGE": IMAGE}
    text = re.sub(r"\$([A-Z]+)", lambda name: values[name[1]], command.replace("\\\n", " "))
    program, group, *words = shlex.split(text.replace("/photos ", "/clothing "))
    assert (program, group) == ("shardmill", "preprocess")
    return words


@pytest.fixture(scope="module")
def launcher(tmp_path_factory, samples):
    """A launcher, whose bucket has the samples; this process reads and writes the bucket too."""
    folder = tmp_path_factory.mktemp("dataflow")
    working = folder / "launcher"
    (working / "dist").mkdir(parents=True)
    build_wheel(working / "dist")
    (working / "samples").mkdir()
    shutil.copytree(FILES, working / "samples" / "dataflow")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(fake_gcs(folder / "gcs", BUCKET))
        make_bucket(server.address, DATA.removeprefix("gs://"))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in server.environment.items():
            patch.setenv(name, value)
        for corpus in ("clothing", "banking"):
            _upload(samples.parent / corpus, corpus)
        service = stack.enter_context(DataflowService().running())
        launcher = Launcher(working, server, service)
        launcher.download_packages()
        yield launcher


def _upload(folder: Path, name: str) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            target = f"{DATA}/{name}/{path.relative_to(folder).as_posix()}"
            with storage.create(storage.place_of(target)) as file:
                file.write(path.read_bytes())


@contextlib.contextmanager
def engine(image: SdkImage):
    """Prism, and a pool that starts workers in an image: addresses of job server and pool."""
    job_port, pool_port = free_port(), free_port()
    prism = fetched("prism") / "prism"
    # The pool is started from a copy: nothing of the checkout is on its path.
    program = shutil.copy(Path(__file__).with_name("worker_pool.py"), image.folder)
    variables = {**image.environment, "STORAGE_EMULATOR_HOST": os.environ["STORAGE_EMULATOR_HOST"]}
    clean = ["env", "-i", f"--chdir={image.folder}", *(f"{k}={v}" for k, v in variables.items())]
    pool = [str(image.python), "-P", str(program), "127.0.0.1", str(pool_port)]
    with processes(image.folder / "logs") as started:
        started.start("pool", [*clean, *pool])
        started.start("prism", [str(prism), f"-job_port={job_port}", "-serve_http=false"])
        for name, port in (("pool", pool_port), ("prism", job_port)):
            started.wait_for(name, lambda port=port: listens("127.0.0.1", port))
        yield f"127.0.0.1:{job_port}", f"127.0.0.1:{pool_port}"


def graph_of(launcher, job):
    staged = launcher.read(options_of(job)["pipelineUrl"])
    return beam_runner_api_pb2.Pipeline.FromString(staged)


def run_staged(launcher: Launcher, job: dict, image: SdkImage) -> None:
    """Runs the graph that a job names, as it was staged."""
    options = json_format.ParseDict(options_of(job), struct_pb2.Struct())
    with engine(image) as (job_server, pool):
        graph = with_worker_pool(graph_of(launcher, job), pool)
        state, messages = run_pipeline(graph, options, job_server, launcher.read)
    log = (image.folder / "logs" / "prism.log").read_text(errors="replace")[-3000:]
    assert state == "DONE", f"{messages}\n{log}"


@pytest.fixture(scope="module")
def images(launcher, tmp_path_factory):
    """A job whose workers are installed from staged packages: the job, and the launcher's result.

    The launcher waits for it as for any other job, while the test runs the graph.
    """
    words = of_the_page("requirements_file")
    words.insert(words.index("--"), "--json")
    job, launched = launcher.submit(*words, *SETTINGS)
    image = SdkImage(tmp_path_factory.mktemp("image"))
    packages = fetch_packages(graph_of(launcher, job), image.folder / "staged", launcher.read)
    boot = fetched("beam-boot") / "container"
    image.run(f"{boot} --setup_only --artifacts={packages}")
    run_staged(launcher, job, image)
    launcher.service.state = "JOB_STATE_DONE"
    return job, json.loads(launched.wait().splitlines()[-1])


@pytest.fixture(scope="module")
def built_image(launcher, tmp_path_factory):
    """The image of samples/dataflow/Dockerfile."""
    context = tmp_path_factory.mktemp("context")
    (context / "samples").mkdir()
    (context / "samples" / "dataflow").symlink_to(FILES)
    (context / "dist").symlink_to(launcher.folder / "dist")
    image = SdkImage(tmp_path_factory.mktemp("built"))
    image.build(DOCKERFILE, context)
    return image


def test_the_staged_graph_gives_the_set_of_the_local_engine(images, samples, tmp_path):
    _, summary = images
    local = preprocess(ImageOptions((str(samples),), tmp_path / "set", resize="shorter:256"))
    assert summary["root_hash"] == local.manifest.root_hash
    assert summary == local.summary() | {"units": summary["units"]}
    assert storage.stat(storage.place_of(f"{DATA}/set-2/report.html")) is not None


def test_a_text_job_in_the_image_gives_the_set_of_the_local_engine(
    launcher, built_image, samples, tmp_path
):
    given = {"label_column": "category", "split": "folders", "train_tokenizer": "bpe:300"}
    given |= {"dedup": "near", "pack": 64}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    source, out = f"{DATA}/banking", f"{DATA}/text"
    arguments = ["text", source, "--out", out, *flags, "--json", "--"]
    job, launched = launcher.submit(*arguments, f"--sdk_container_image={IMAGE}")
    (worker,) = job["environment"]["workerPools"]
    assert worker["workerHarnessContainerImage"] == IMAGE
    assert not worker.get("packages")
    run_staged(launcher, job, built_image)
    launcher.service.state = "JOB_STATE_DONE"
    summary = json.loads(launched.wait().splitlines()[-1])
    local = preprocess(TextOptions((str(samples.parent / "banking"),), tmp_path / "set", **given))
    assert summary["root_hash"] == local.manifest.root_hash


def test_a_job_of_a_template_lists_the_corpus_and_finishes_the_set(
    launcher, built_image, samples, tmp_path
):
    before = len(launcher.service.jobs)
    template, out = f"{DATA}/templates/photos", f"{DATA}/set-4"
    said = launcher.start(*of_the_page("template_location")).wait()
    assert f"wrote the template {template}" in said
    assert len(launcher.service.jobs) == before
    assert storage.stat(storage.place_of(f"{out}/manifest.json")) is None
    run_staged(launcher, json.loads(launcher.read(template)), built_image)
    local = preprocess(ImageOptions((str(samples),), tmp_path / "set", resize="shorter:256"))
    manifest = load_manifest(storage.place_of(out))
    assert manifest.root_hash == local.manifest.root_hash
    assert storage.stat(storage.place_of(f"{out}/report.html")) is not None


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_a_set_in_the_bucket_is_looked_at(images, shardmill, command):
    done = shardmill(command, f"{DATA}/set-2")
    assert done.returncode == 0, done.stderr


def test_the_graph_has_the_steps_of_the_job_and_shuffles_references_alone(launcher, images):
    transforms = graph_of(launcher, images[0]).components.transforms.values()
    labels = {each.unique_name.split("/")[1] for each in transforms if "/" in each.unique_name}
    assert labels == {*STEPS, *(f"Start{step}" for step in FROM_THE_BUILD)}
    shuffles = [each.unique_name for each in transforms if "group_by_key" in each.spec.urn]
    assert {name.split("/")[1] for name in shuffles} == {
        "SpreadUnits",
        "SpreadMerge1",
        "SpreadShards",
        "SpreadParts",
    }


def test_the_settings_of_the_user_reach_the_service(images):
    environment = images[0]["environment"]
    (worker,) = environment["workerPools"]
    assert worker["machineType"] == "n2-standard-4"
    assert worker["autoscalingSettings"]["maxNumWorkers"] == 20
    assert worker["diskSizeGb"] == 60
    assert worker["numThreadsPerWorker"] == 4
    assert environment["serviceAccountEmail"].startswith("shardmill@")
    assert images[0]["labels"] == {"team": "vision"}
    assert "an_experiment" in environment["experiments"]
    assert "enable_prime" in environment["serviceOptions"]


def test_the_packages_of_the_worker_are_staged_and_no_session(launcher, images):
    folder = options_of(images[0])["pipelineUrl"].rpartition("/")[0]
    names = {url.removeprefix(f"{folder}/") for url in launcher.staged() if folder in url}
    wheels = {name for name in names if name.endswith(".whl")}
    others = {"pipeline.pb", "requirements.txt", "extra_packages.txt"}
    assert names - wheels == others
    lines = (FILES / "requirements.txt").read_text().splitlines()
    pinned = {line.partition("==")[0].replace("-", "_") for line in lines if "==" in line}
    assert {name.partition("-")[0].lower() for name in wheels} == pinned | {"shardmill"}
    (environment,) = graph_of(launcher, images[0]).components.environments.values()
    assert len(environment.dependencies) == len(names) - 1


def test_nothing_of_the_launchers_machine_is_in_the_job(launcher, images):
    graph = graph_of(launcher, images[0])
    seen = [json.dumps(images[0]).encode(), graph.SerializeToString()]
    for transform in graph.components.transforms.values():
        if transform.spec.urn == "beam:transform:pardo:v1":
            payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
            seen.append(bz2.decompress(base64.b64decode(payload.do_fn.payload)))
    everything = b"\n".join(seen).replace(f"{BUCKET}/tmp/".encode(), b"")
    # Beam pickles functions of its own with the names of their files.
    everything = everything.replace(str(Path(apache_beam.__file__).parent).encode(), b"")
    assert b"beam_jobs.pipeline" in everything
    for text in (SECRET, str(REPOSITORY), str(launcher.folder), str(Path.home()), "/tmp/"):
        match = re.search(rb".{0,80}" + re.escape(text.encode()) + rb".{0,80}", everything)
        assert match is None, match


def test_a_setup_file_is_staged_with_the_pinned_packages(launcher):
    job, launched = launcher.submit(*of_the_page("setup_file"))
    launched.kill()
    folder = options_of(job)["pipelineUrl"].rpartition("/")[0]
    archive = launcher.folder / "workflow.tar.gz"
    archive.write_bytes(launcher.read(f"{folder}/workflow.tar.gz"))
    shutil.unpack_archive(archive, launcher.folder / "workflow", filter="data")
    (metadata,) = (launcher.folder / "workflow").glob("*/PKG-INFO")
    required = re.findall(r"^Requires-Dist: (.+)$", metadata.read_text(), re.MULTILINE)
    assert required == re.findall(r"^\S+==\S+$", (FILES / "requirements.txt").read_text(), re.M)


def test_a_job_that_fails_names_where_to_look(launcher):
    _, launched = launcher.submit(*of_the_page("worker_machine_type"))
    # Of a job that has failed by then, Beam asks for no messages.
    wait_until(lambda: "/messages" in launcher.service.requests[-1], launched.process, "a look")
    launcher.service.messages.append(
        {
            "id": "1",
            "time": "2026-11-22T00:00:00Z",
            "messageText": "Quota 'CPUS' exceeded. Limit: 8.0 in region us-central1.",
            "messageImportance": "JOB_MESSAGE_ERROR",
        }
    )
    launcher.service.state = "JOB_STATE_FAILED"
    launched.wait(code=3)
    launcher.service.messages.clear()
    err = launched.err.read_text()
    assert "Quota 'CPUS' exceeded" in err
    assert "Traceback" not in err


def test_every_command_of_the_page_is_run_here():
    run = ["requirements_file", "template_location", "setup_file", "worker_machine_type"]
    left = [each for each in COMMANDS if not any(f"--{flag}" in each for flag in run)]
    assert [each.split()[:2] for each in left] == [
        ["pip", "wheel"],  # build_wheel
        ["shardmill", "inspect"],
        ["shardmill", "verify"],
    ]
