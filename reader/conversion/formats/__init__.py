"""The formats that a set is converted to, each in a file of its own.

To add one, write a `ConversionFormat` in a file here, and add a line to `CONVERSION_FORMATS`.
"""

from __future__ import annotations

from foundation.members import Members
from reader.conversion.base import ConversionFormat

# Loaded when they are used: the library of each is another one.
CONVERSION_FORMATS: Members[type[ConversionFormat]] = Members(
    {
        "webdataset": "reader.conversion.formats.webdataset:WebDatasetFormat",
        "mds": "reader.conversion.formats.mds:MdsFormat",
        "array_record": "reader.conversion.formats.array_record:ArrayRecordFormat",
        "parquet": "reader.conversion.formats.parquet:ParquetFormat",
        "litdata": "reader.conversion.formats.litdata:LitDataFormat",
        "files": "reader.conversion.formats.files:FilesFormat",
    }
)
