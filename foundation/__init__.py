"""What every package stands on: errors, declared options, storage by path or URL.

Nothing here knows the shard set format, which is `shard_format`.
"""
