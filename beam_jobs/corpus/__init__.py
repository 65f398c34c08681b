"""Raw data to records, once for every record type."""
