"""Reads the set "set", with the encoding and the resize mode of toys."""

import reader

images, _ = next(iter(reader.load("set", batch_size=4, augment="none").dataset))
assert images.shape == (4, 16, 16, 3), images.shape
assert len(set(images.numpy().ravel())) > 9
