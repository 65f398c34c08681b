"""Where the records of a split are read from: the set itself, copies on local disk, or memory.

    place = locate_dataset("s3://bucket/set", "train", cache_dir)   manifest and index are local
    plan = plan_cache(place, opened, options)                   what is cached, and why
    records = RECORD_TYPES["image"](opened, options)
    filled = plan.fill(on_bytes)                                what the pipeline reads, and for
                                                                decoded images another decoder

A cache changes no batch: the same records come in the same order, to the byte.

Nothing is imported here: what a cache directory holds is told without TensorFlow.
"""
