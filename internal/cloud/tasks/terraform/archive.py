"""A configuration as HCP Terraform wants it uploaded: a gzipped tar of the root module."""

import gzip
import io
import tarfile
from collections.abc import Mapping


def archive(files: Mapping[str, bytes]) -> bytes:
    """The same files give the same bytes: sorted, without times, owners and the name of a machine."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size = len(files[name])
            entry.mode = 0o644
            tar.addfile(entry, io.BytesIO(files[name]))
    return packed.getvalue()
