"""Exact and near duplicates, and the clusters they form: functions on columns.

exact            records with equal fingerprints
clusters         pairs of duplicates -> clusters, and which record of each is kept
images, text     near duplicates of one kind of record each; repeated segments of text
"""
