"""Reads the set "docs" with the toy transform: every document is "a toy"."""

import reader

texts, _ = next(iter(reader.load("docs", batch_size=2, augment="toy").dataset))
assert set(texts.numpy()) == {b"a toy"}
