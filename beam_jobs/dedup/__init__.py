"""Exact and near duplicates, and the clusters they form: functions on columns, no Beam.

exact            records with equal fingerprints
clusters         pairs of duplicates -> clusters, and which record of each is kept
union_find       connected components
images, text     near duplicates of one record type each
"""
