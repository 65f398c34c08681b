"""A search for good options of a training: trials are runs of `shardmill train`, in processes.

`space` says what is searched, `proposals` chooses the options of a trial, `pruners` ends hopeless
ones early, `trials` keeps the record, `searching` runs it all, and `plot` draws it.
"""
