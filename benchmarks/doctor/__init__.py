"""Is `shardmill doctor` right? Ten bottlenecks with known causes; see __main__.py."""
