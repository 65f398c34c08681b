"""Beam's external worker pool on one address: `python -m tests.engines.worker_pool HOST PORT`.

Beam's own program takes the port on all addresses of the machine. On one machine two pools would
then share it, while each TaskManager needs its own, as it has on a machine of its own: worker ids
are unique within a TaskManager only.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import grpc
from apache_beam.portability.api import beam_fn_api_pb2_grpc
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.utils.thread_pool_executor import shared_unbounded_instance


def main() -> None:
    """Serves until it is killed."""
    host, port = sys.argv[1:]
    # The pool starts workers as "python", which must be this one.
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    server = grpc.server(shared_unbounded_instance())
    pool = BeamFnExternalWorkerPoolServicer(use_process=True)
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    if server.add_insecure_port(f"{host}:{port}") != int(port):
        sys.exit(f"port {port} of {host} is taken")
    server.start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
