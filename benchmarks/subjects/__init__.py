"""What is measured: one file per subject, each a program of its own."""
