"""Reads the set "set" with the toy transform: every value is 7."""

import reader

stream = reader.load("set", batch_size=4, image_size=8, augment="standard,toy")
images, _ = next(iter(stream.dataset))
assert set(images.numpy().ravel()) == {7}
