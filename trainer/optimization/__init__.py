"""From gradients to new weights: optimizers, learning rates, clipping, pruning."""
