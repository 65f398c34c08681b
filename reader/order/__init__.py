"""Which record comes at which position of an epoch, and for which worker: functions, no buffers.

The functions exist twice: `numpy_order` says what the order is, and `graph_order` computes the same
in TensorFlow operations. Nothing is imported here.
"""
