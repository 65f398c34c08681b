"""Engines of a job: threads and processes of this machine, or a runner of Beam."""
