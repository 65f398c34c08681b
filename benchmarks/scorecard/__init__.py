"""The scorecard: shardmill and its peers at the same work, in rows that can be repeated."""
