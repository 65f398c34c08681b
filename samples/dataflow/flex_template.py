"""Starts a job from a flex template, whose parameters are options: --job=images --sources=gs://..."""
