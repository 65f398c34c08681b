"""Where the records of a split are read from: the set itself, copies on local disk, or memory.

    place = locate_dataset("s3://bucket/set", options)   local manifest and index
    choice, filled = fill_cache(place, opened, ...)      which cache, and why; the record reader of
                                                         the pipeline, and for decoded images
                                                         another decoder

A cache changes no batch: the same records come in the same order, to the byte.

Nothing is imported here: 'shardmill cache' lists a cache directory without TensorFlow.
"""
