"""The audit of a finished set: records, classes and columns that somebody should look at.

Nothing is changed: what is found is a page, a table, and lists of record ids.

    auditing      from a set to the result: the pass, the checks, the rows
    audited_set   columns of all records: those of the index, and those that were measured
    measuring     one pass over the shards, for what the index does not have
    checks/       a file for each kind of check; CHECKS names them
    predictions   what a model says of records that it was not trained on
    output        the page, the table and the lists
"""
