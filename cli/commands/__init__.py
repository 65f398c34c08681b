"""One file per command; each imports what is heavy inside its body."""
