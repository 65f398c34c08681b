"""The directory of a run, and everything that lets the same command resume it."""
