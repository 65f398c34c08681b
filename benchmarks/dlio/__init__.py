"""shardmill in DLIO, the benchmark behind MLPerf Storage."""
