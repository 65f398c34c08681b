"""Random access: any record of a split by its number, decoded without TensorFlow."""
