"""Measurements of shardmill, the bare kernels and other libraries, in one run."""
