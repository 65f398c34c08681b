"""File formats: one module each, named in `beam_jobs.options.formats`.

base       Format, which a format implements: it finds records in a file and parses them
lines      the lines of a file, or of a split of one
columnar   what Parquet and Arrow have in common
xml_*      the bytes of XML, its elements, and their text
warc_*     the framing of WARC; http_response, the body of a response
"""
