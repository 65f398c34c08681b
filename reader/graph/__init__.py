"""Batches in operations of TensorFlow: what a service sends to its workers, and other transforms.

The order, the index, the records and their decoding as in NumPy, in a graph that holds no Python.
"""
