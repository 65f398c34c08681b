"""Batches made by other processes: the client in a trainer, and the processes of a service.

Nothing is imported here: a command parses an address without TensorFlow.
"""
