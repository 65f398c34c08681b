"""Side-by-side measurements: shardmill, the bare kernel, and a peer, in one run."""
