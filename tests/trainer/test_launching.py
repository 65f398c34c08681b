"""A group of processes, each of which is a few lines: no TensorFlow."""

import sys

import pytest

from trainer.errors import WORKERS_LOST
from trainer.launching.server_group import ServerGroup

# The chief waits for worker 1, as that of a run does; worker 1 is killed before or after it serves.
PROGRAM = """
import json, os, signal, socket, sys, time

config = json.loads(os.environ["TF_CONFIG"])
job, number = config["task"]["type"], config["task"]["index"]

def address(job, number):
    host, port = config["cluster"][job][number].split(":")
    return host, int(port)

def listens():
    try:
        socket.create_connection(address("worker", 1)).close()
    except OSError:
        return False
    return True

if (job, number) == ("worker", 1):
    if sys.argv[1] == "after":
        server = socket.create_server(address(job, number))
        time.sleep(2)
    os.kill(os.getpid(), signal.SIGKILL)
server = socket.create_server(address(job, number))
if job != "chief":
    signal.pause()
while not listens():
    time.sleep(0.1)
while listens():
    time.sleep(0.1)
time.sleep(2)
"""


@pytest.mark.parametrize(("moment", "code"), [("before", WORKERS_LOST), ("after", 0)])
def test_a_run_without_restarts_ends_with_a_worker_that_never_served(options, moment, code):
    lines = []
    group = ServerGroup(
        options(local_workers=2, parameter_servers=1),
        [sys.executable, "-c", PROGRAM, moment],
        None,
        lines.append,
    )
    assert group.run() == code
    assert lines == ["worker 1 ended by SIGKILL"]
