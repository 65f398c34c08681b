"""The measured programs, one per file."""
