"""Processes of this machine: child processes, signals, how a process exits, and file locks."""
