"""Reads the set "toy-set": the documents are reversed."""

import reader

stream = reader.load("toy-set", batch_size=2, shuffle="off", epochs=1)
(batch,) = stream.numpy()
assert all(text.endswith(b"YOT") for text in batch.tolist()), batch
