"""Beam's external worker pool on one address: `python -m tests.engines.worker_pool HOST PORT`.

Beam's own program takes the port on all addresses of the machine. On one machine two pools would
then share it, while each TaskManager needs its own, as it has on a machine of its own: worker ids
are unique within a TaskManager only. After SIGUSR1 it kills its workers, and promises new ones that
never come, as if it always died in between.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import grpc
import psutil
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.utils.thread_pool_executor import shared_unbounded_instance


class _Pool(BeamFnExternalWorkerPoolServicer):
    """A pool that may stop to start workers."""

    is_broken = False

    def StartWorker(self, request, context):
        if self.is_broken:
            return beam_fn_api_pb2.StartWorkerResponse()
        return super().StartWorker(request, context)


def main() -> None:
    """Serves until it is killed."""
    host, port = sys.argv[1:]
    # The pool starts workers as "python", which must be this one.
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    server = grpc.server(shared_unbounded_instance())
    pool = _Pool(use_process=True)
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    if server.add_insecure_port(f"{host}:{port}") != int(port):
        sys.exit(f"port {port} of {host} is taken")
    server.start()
    signal.signal(signal.SIGUSR1, lambda *_: _break_promises(pool))
    threading.Event().wait()


def _break_promises(pool: _Pool) -> None:
    pool.is_broken = True
    for worker in psutil.Process().children(recursive=True):
        worker.kill()


if __name__ == "__main__":
    main()
