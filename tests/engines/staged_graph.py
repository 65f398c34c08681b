"""Runs the pipeline that a launcher staged for Dataflow, on another engine.

Dataflow reads `pipeline.pb` from the staging location, starts the container image in it on every
worker, and has the image's boot program install the staged packages. Here the same program installs
them, ahead of the job because Prism waits for a worker for a minute and no longer. A job server
takes the very same proto: only the environment is another one, EXTERNAL in place of DOCKER.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
from apache_beam.portability import common_urns
from apache_beam.portability.api import (
    beam_artifact_api_pb2,
    beam_artifact_api_pb2_grpc,
    beam_job_api_pb2,
    beam_job_api_pb2_grpc,
    beam_runner_api_pb2,
    endpoints_pb2,
)
from apache_beam.runners.portability.artifact_service import (
    ArtifactRetrievalService,
    offer_artifacts,
)
from google.protobuf import json_format, struct_pb2

_CHUNK_BYTES = 2 << 20  # 2 MiB: below the 4 MiB of a gRPC message
_ENDED = {
    beam_job_api_pb2.JobState.DONE,
    beam_job_api_pb2.JobState.FAILED,
    beam_job_api_pb2.JobState.CANCELLED,
}


class _StagedPackages(ArtifactRetrievalService):
    """Gives a job server the packages in the bucket, as Dataflow gives them to its workers."""

    def __init__(self, read_staged: Callable[[str], bytes]) -> None:
        super().__init__(file_reader=open)
        self._read_staged = read_staged

    def GetArtifact(self, request: Any, context: Any = None) -> Iterator[Any]:
        assert request.artifact.type_urn == common_urns.artifact_types.URL.urn
        payload = beam_runner_api_pb2.ArtifactUrlPayload.FromString(request.artifact.type_payload)
        data = self._read_staged(payload.url)
        for start in range(0, len(data), _CHUNK_BYTES):
            yield beam_artifact_api_pb2.GetArtifactResponse(data=data[start : start + _CHUNK_BYTES])


def fetch_packages(
    pipeline: beam_runner_api_pb2.Pipeline, folder: Path, read_staged: Callable[[str], bytes]
) -> Path:
    """The list that Beam's boot program installs staged packages from, which are next to it.

    Args:
        pipeline: As it was staged.
        folder: A new one.
        read_staged: The content of a staged package, by its URL.
    """
    folder.mkdir()
    (environment,) = pipeline.components.environments.values()
    packages = []
    for package in environment.dependencies:
        url = beam_runner_api_pb2.ArtifactUrlPayload.FromString(package.type_payload).url
        role = beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(package.role_payload)
        (folder / role.staged_name).write_bytes(read_staged(url))
        file = beam_runner_api_pb2.ArtifactFilePayload(path=role.staged_name)
        local = beam_runner_api_pb2.ArtifactInformation(
            type_urn=common_urns.artifact_types.FILE.urn,
            type_payload=file.SerializeToString(),
            role_urn=package.role_urn,
            role_payload=package.role_payload,
        )
        packages.append(json_format.MessageToJson(local))
    artifacts = folder / "artifacts.json"
    artifacts.write_text(json.dumps(packages))
    return artifacts


def with_worker_pool(
    staged: beam_runner_api_pb2.Pipeline, pool: str
) -> beam_runner_api_pb2.Pipeline:
    """The staged pipeline, whose workers come from a pool; everything else stays.

    Args:
        staged: The content of pipeline.pb.
        pool: Address of the pool, host:port.
    """
    pipeline = beam_runner_api_pb2.Pipeline()
    pipeline.CopyFrom(staged)
    external = beam_runner_api_pb2.ExternalPayload(
        endpoint=endpoints_pb2.ApiServiceDescriptor(url=pool)
    )
    for environment in pipeline.components.environments.values():
        assert environment.urn == common_urns.environments.DOCKER.urn
        environment.urn = common_urns.environments.EXTERNAL.urn
        environment.payload = external.SerializeToString()
    return pipeline


def run_pipeline(
    pipeline: beam_runner_api_pb2.Pipeline,
    options: struct_pb2.Struct,
    job_server: str,
    read_staged: Callable[[str], bytes],
    timeout_seconds: float = 900,
) -> tuple[str, list[str]]:
    """Runs a pipeline on a job server: the final state and the messages of the engine.

    Args:
        pipeline: With an environment that the engine knows.
        options: The pipeline options that the job was submitted with.
        job_server: Address of the job API, host:port.
        read_staged: The content of a staged package, by its URL.
        timeout_seconds: Until a job that does not end is a failure.
    """
    with grpc.insecure_channel(job_server) as channel:
        grpc.channel_ready_future(channel).result(timeout=60)
        jobs = beam_job_api_pb2_grpc.JobServiceStub(channel)
        prepared = jobs.Prepare(
            beam_job_api_pb2.PrepareJobRequest(
                job_name="staged", pipeline=pipeline, pipeline_options=options
            )
        )
        with grpc.insecure_channel(prepared.artifact_staging_endpoint.url) as staging:
            offer_artifacts(
                beam_artifact_api_pb2_grpc.ArtifactStagingServiceStub(staging),
                _StagedPackages(read_staged),
                prepared.staging_session_token,
            )
        started = jobs.Run(beam_job_api_pb2.RunJobRequest(preparation_id=prepared.preparation_id))
        request = beam_job_api_pb2.JobMessagesRequest(job_id=started.job_id)
        state, messages = "", []
        for response in jobs.GetMessageStream(request, timeout=timeout_seconds):
            if response.HasField("message_response"):
                messages.append(response.message_response.message_text)
                continue
            state = beam_job_api_pb2.JobState.Enum.Name(response.state_response.state)
            if response.state_response.state in _ENDED:
                break
        return state, messages
