"""File cache of a live cluster's lists, so that the next reading only requests the changes.

Each list is stored with its resource version, from which a watch reports the changes. If the API server no longer
remembers the version, the kind is listed again.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from kschedctl.api.decoding import decode_json
from kschedctl.api.kinds import KINDS
from kschedctl.api.pod_table import PodTable
from kschedctl.errors import InputError
from kschedctl.sources.archive_file import build_archive, open_archive
from kschedctl.sources.archive_sections import decode_objects, encode_objects
from kschedctl.sources.live.lists import Listing, ObjectTuple
from kschedctl.sources.output_file import write_file
from kschedctl.text.version import VERSION

log = logging.getLogger(__name__)

FRESH_SECONDS = 900.0
"""The maximum age of a cache file that is used. API servers remember changes only for minutes."""
KEPT_SECONDS = 86_400.0
"""The age at which a cache file is deleted."""
HEADER = "cache.json"
MAX_HEADER_SIZE = 1 << 20  # bytes
SUFFIX = ".cache"


class CachedList(msgspec.Struct, frozen=True):
    """The metadata of a cached list."""

    path: str
    """The URL path of the list."""
    fields: str
    """The field selector of the list."""
    resource_version: str
    objects: int
    """The number of objects."""


class _Header(msgspec.Struct, frozen=True):
    version: str
    lists: dict[str, CachedList]


class ReadingCache(NamedTuple):
    """A cache file for one server, user and set of requested kinds."""

    path: Path

    @classmethod
    def open(cls, *key: object) -> ReadingCache:
        """Return the cache for the key in the user's private cache folder, and delete expired cache files.

        Raises InputError if the folder cannot be used.
        """
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kschedctl"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for file in folder.glob(f"*{SUFFIX}"):
                if time.time() - file.stat().st_mtime > KEPT_SECONDS:
                    file.unlink(missing_ok=True)
        except OSError as error:
            raise InputError(f"cannot be used: {error.strerror}", where=str(folder), hint="--cache needs it") from None
        return cls(folder / f"{sha256(repr(key).encode()).hexdigest()[:32]}{SUFFIX}")

    def load_lists(self) -> dict[str, Listing]:
        """Return the cached lists by kind, or {} if the file is missing, expired, damaged or from another version."""
        try:
            if not 0 <= time.time() - self.path.stat().st_mtime <= FRESH_SECONDS:
                return {}
            with open_archive(str(self.path)) as members:
                header = decode_json(members.read_member(HEADER, MAX_HEADER_SIZE), _Header)
                if header.version != VERSION:
                    return {}
                return {
                    kind: _decode_listing(kind, cached_list, members.read_member(kind))
                    for kind, cached_list in header.lists.items()
                    if kind in KINDS
                }
        except (OSError, InputError, ValueError, KeyError) as error:
            log.info("%s: %s", self.path, error)
            return {}

    def save_lists(self, lists: Mapping[str, Listing]) -> None:
        """Write the lists to the cache file. Raises InputError if the file cannot be written."""
        header = _Header(VERSION, {kind: _build_list_metadata(listing) for kind, listing in lists.items()})
        members = {HEADER: msgspec.json.encode(header)}
        members |= {kind: encode_objects(kind, listing.objects) for kind, listing in lists.items()}
        write_file(str(self.path), [build_archive(members)], private=True)


def _build_list_metadata(listing: Listing) -> CachedList:
    """Build the metadata that is stored with a listing."""
    return CachedList(listing.path, listing.fields, listing.resource_version, len(listing.objects))


def _decode_listing(kind: str, metadata: CachedList, data: bytes) -> Listing:
    """Decode a cached listing. Raises ValueError if the data do not fit the metadata."""
    objects = decode_objects(kind, data, metadata.objects)
    collection = objects if isinstance(objects, PodTable) else ObjectTuple(objects)
    return Listing(collection, metadata.resource_version, metadata.path, metadata.fields)
