"""Image kernels, as functions on bytes and arrays.

decode             bytes of any format -> upright sRGB pixels, or a reason for rejection
colour             ICC profiles, CMYK and CIE L*a*b* to sRGB
filters            rules that leave images out
resize             how large an image becomes, and by which filter
encode             pixels -> the bytes that a shard stores, and back
jpeg_passthrough   JPEG files that are stored unchanged
perceptual_hash    what near duplicates are found by
statistics         exact sums over the channels
"""
