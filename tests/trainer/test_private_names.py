"""What the trainer needs of TensorFlow and has no public name: another version may lack it.

Names that a test runs anyway are not here.
"""

import pytest
from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2
from tensorflow.python.eager import context


@pytest.mark.parametrize(
    ("owner", "name", "user"),
    [
        (context.context(), "check_collective_ops_peer_health", "trainer/workers/watch.py"),
        (context.context(), "abort_collective_ops", "trainer/workers/watch.py"),
        (context.context(), "configure_coordination_service", "trainer/workers/bootstrap.py"),
        (coordination_config_pb2, "CoordinatedJob", "trainer/workers/bootstrap.py"),
    ],
)
def test_a_name_that_is_not_public_is_there(owner, name, user):
    assert hasattr(owner, name), f"{user} needs {name}. Find another way to do what it does."
