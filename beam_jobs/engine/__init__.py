"""Which Beam runner runs a job, with how many workers, and the local work queue."""
