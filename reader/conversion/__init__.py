"""A shard set in another format, such as WebDataset or Parquet: `reader.convert`."""
