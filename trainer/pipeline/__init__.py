"""A model whose layers are on several devices, in stages of consecutive ones.

A batch is cut into micro-batches, and a device works on one while the next device works on the one
before it (GPipe, Huang et al. 2019, section 2.3).

    calls       a model as the sequence of the calls of its layers
    placement   which of these calls a device makes, from what they cost
    stages      the parts of a model, their devices, and where their variables are
    loop        the steps: forward and backward passes of micro-batches
"""
