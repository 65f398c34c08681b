"""Asynchronous training: a chief deals out steps to workers, whose variables are on servers.

The chief waits for all processes and ends them when the run is over (`bootstrap`), and looks who is
there (`roll_call`). A worker or a parameter server does what the chief sends (`serving`). Model and
optimizer are on the parameter servers as parts of variables (`remote_state`); the loop deals out
units of steps to workers as they become free (`asynchronous`).
"""
