"""From text to token ids: tokenizers that are given or trained, and packing to a fixed length.

Staging always stages text, so another tokenizer finds the staged units as they are. Ids are made
while shards are written.
"""
