"""Names of TensorFlow that are not public: each has a reason here, and is still there.

Where a test fails after an upgrade: look for what replaced the name, or for a public way by now.
"""

import inspect
from pathlib import Path

import pytest
import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import AttrValue

import reader
from tests.trainer.test_private_names import private_names

REASONS = {
    "_initial_epoch": "where Keras begins, as its own BackupAndRestore sets it",
    "_num_workers": "a dispatcher says in no other way how many workers it knows",
    "_set_attr": "keeps TensorFlow from folding, thus from reading, an index that is mapped",
    "_stop": "a dispatcher ends with its object alone, which a traceback may keep",
    "tensorflow.core.framework.attr_value_pb2": "what _set_attr takes",
}
PUBLIC = {"_replace"}  # of namedtuple


def test_each_private_name_has_a_reason():
    files = Path(reader.__file__).parent.rglob("*.py")
    assert {name for path in files for name in private_names(path)} - PUBLIC == set(REASONS)


@pytest.mark.parametrize("name", ["_stop", "_num_workers"])
def test_a_dispatcher_is_stopped_and_counts_its_workers(name):
    method = getattr(tf.data.experimental.service.DispatchServer, name)
    assert list(inspect.signature(method).parameters) == ["self"]


def test_an_operation_in_a_graph_takes_an_attribute():
    with tf.Graph().as_default():
        operation = tf.constant(1).op
        operation._set_attr("_scoped_allocator", AttrValue(list=AttrValue.ListValue()))
        assert operation.get_attr("_scoped_allocator") == []
