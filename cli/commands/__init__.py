"""One file per command; heavy imports are inside the command bodies."""
