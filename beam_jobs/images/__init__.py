"""Image kernels: decode, resize, encode. Plain functions on bytes and arrays, no Beam."""
