"""What was read of a live cluster, kept in a file, so that the next reading asks only for what changed since.

A kind is kept with the version that its list had: a watch from there on tells what changed. Where the API server does
not remember that version any more it is listed again.
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
from kschedctl.sources.archive.container import build_archive, open_archive
from kschedctl.sources.archive.sections import decode_objects, encode_objects
from kschedctl.sources.live.lists import Listing, Others
from kschedctl.sources.output_file import write_file
from kschedctl.text.version import VERSION

log = logging.getLogger(__name__)

FRESH_SECONDS, KEPT_SECONDS = 900.0, 86_400.0
"""For so long it is used: an API server remembers changes for minutes. Older than that, files are removed."""
HEADER, LONGEST_HEADER, SUFFIX = "cache.json", 1 << 20, ".cache"


class KeptList(msgspec.Struct, frozen=True):
    """How a kind was listed, and how many objects there were."""

    path: str
    fields: str
    resource_version: str
    objects: int


class _Header(msgspec.Struct, frozen=True):
    version: str
    lists: dict[str, KeptList]


class ReadingCache(NamedTuple):
    """A file for what ``key`` names: a server, who asks it, and what for."""

    path: Path

    @classmethod
    def of(cls, *key: object) -> ReadingCache:
        """In the user's own folder for caches, which nobody else may look into. Raises InputError."""
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kschedctl"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for file in folder.glob(f"*{SUFFIX}"):
                if time.time() - file.stat().st_mtime > KEPT_SECONDS:
                    file.unlink(missing_ok=True)
        except OSError as error:
            raise InputError(f"cannot be used: {error.strerror}", where=str(folder), hint="--cache needs it") from None
        return cls(folder / f"{sha256(repr(key).encode()).hexdigest()[:32]}{SUFFIX}")

    def lists(self) -> dict[str, Listing]:
        """Lists that were kept; none where the file is not there, old, another version's or damaged."""
        try:
            if not 0 <= time.time() - self.path.stat().st_mtime <= FRESH_SECONDS:
                return {}
            with open_archive(str(self.path)) as members:
                header = decode_json(members.read(HEADER, LONGEST_HEADER), _Header)
                if header.version != VERSION:
                    return {}
                return {
                    kind: _listing(kind, kept, members.read(kind))
                    for kind, kept in header.lists.items()
                    if kind in KINDS
                }
        except (OSError, InputError, ValueError, KeyError) as error:
            log.info("%s: %s", self.path, error)
            return {}

    def keep(self, lists: Mapping[str, Listing]) -> None:
        """Write them down. Raises InputError where that is not possible."""
        header = _Header(VERSION, {kind: _kept(listing) for kind, listing in lists.items()})
        members = {HEADER: msgspec.json.encode(header)}
        members |= {kind: encode_objects(kind, listing.objects) for kind, listing in lists.items()}
        write_file(str(self.path), [build_archive(members)], private=True)


def _kept(listing: Listing) -> KeptList:
    return KeptList(listing.path, listing.fields, listing.resource_version, len(listing.objects))


def _listing(kind: str, kept: KeptList, packed: bytes) -> Listing:
    objects = decode_objects(kind, packed, kept.objects)
    made = objects if isinstance(objects, PodTable) else Others(objects)
    return Listing(made, kept.resource_version, kept.path, kept.fields)
