"""A group of processes, each of which is a few lines: no TensorFlow."""

import sys

import pytest

from trainer.errors import WORKERS_LOST
from trainer.launching.server_group import ServerGroup

# Worker 1 is killed before it serves, or when the group has seen it serve; then the chief ends
# when the group has waited for it.
PROGRAM = """
import json, os, pathlib, signal, socket, sys, time

config = json.loads(os.environ["TF_CONFIG"])
job, number = config["task"]["type"], config["task"]["index"]
host, port = config["cluster"][job][number].split(":")
moment, pid = sys.argv[1], pathlib.Path(sys.argv[2])
server = None if moment == "before" else socket.create_server((host, int(port)))
if (job, number) == ("worker", 1):
    pid.with_suffix(".tmp").write_text(str(os.getpid()))
    pid.with_suffix(".tmp").rename(pid)
    if server:
        server.accept()
    os.kill(os.getpid(), signal.SIGKILL)
if job != "chief" or not server:
    signal.pause()
while not pid.exists() or pathlib.Path("/proc", pid.read_text()).exists():
    time.sleep(0.1)
"""


@pytest.mark.parametrize(("moment", "code"), [("before", WORKERS_LOST), ("after", 0)])
def test_a_run_without_restarts_ends_if_a_worker_never_served(options, tmp_path, moment, code):
    lines = []
    group = ServerGroup(
        options(local_workers=2, parameter_servers=1),
        [sys.executable, "-c", PROGRAM, moment, str(tmp_path / "pid")],
        None,
        lines.append,
    )
    assert group.run() == code
    assert lines == ["worker 1 ended by SIGKILL"]
