"""Training on Keras with the JAX backend: the same run, with steps of JAX."""
