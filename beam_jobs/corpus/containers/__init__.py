"""Archive formats, by the name that a locator keeps.

base           Container and Member, which an archive format implements
tar, zip       the two formats; tar_headers and zip_directory parse their structure
archive_index  the members of one archive in columns, and the layout their names reveal
webdataset     members with the same key as one record

To add one: write `beam_jobs/corpus/containers/NAME.py` with a `Container`, a line here, and its
magic bytes in `beam_jobs/corpus/sniffing.py`.
"""

from __future__ import annotations

from beam_jobs.corpus.containers.base import Container
from beam_jobs.corpus.containers.tar import Tar
from beam_jobs.corpus.containers.zip import Zip

CONTAINERS: dict[str, Container] = {"tar": Tar(), "zip": Zip()}

__all__ = ["CONTAINERS", "Container"]
