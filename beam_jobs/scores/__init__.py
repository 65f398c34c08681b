"""Columns that shardmill computes: --score.

    base        the interface of a scorer, and the identity of its files
    columns     all scores of a job, and the records for which one fails
    rules       numbers that rules of --clean compare

Each other file is a scorer; SCORERS in `columns` names it.
"""
