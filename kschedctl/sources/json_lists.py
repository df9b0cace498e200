"""Big JSON lists read piece by piece: items are decoded straight into structs while the rest is still in the file.

A piece ends where the text looks like the end of one item and the beginning of the next. That is only a guess, but
decoding checks it: cut anywhere deeper, the brackets do not match. Then the items are taken one by one.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any

import msgspec

from kschedctl.api.api_versions import group_of
from kschedctl.api.decoding import get_json_decoder
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kinds import unique_kind_name
from kschedctl.api.observed import api_server, autoscaler
from kschedctl.api.observed.command_lines import ContainerOwner
from kschedctl.api.operator_resources import is_custom_group
from kschedctl.api.versions_read import is_newer_version
from kschedctl.errors import InputError
from kschedctl.sources.collector import Collector
from kschedctl.sources.documents.documents import decode_utf8
from kschedctl.sources.documents.files import Reader
from kschedctl.sources.documents.json_documents import describe_json_error, parse_json
from kschedctl.sources.documents.place import Place
from kschedctl.sources.kinds import TypeMeta, get_item_decoder, get_item_kind, get_items_decoder
from kschedctl.sources.new_fields import FULLY_KNOWN_KINDS, NewPodFields

STEP = 128 << 10  # bytes read at a time: few enough to stay in a processor's cache
LARGEST_ITEM = 64 << 20
_WINDOW = 16 << 10
_HEAD = re.compile(
    rb'\s*\{\s*((?:"(?:apiVersion|kind|metadata)"\s*:\s*(?:"[^"\\]*"|\{[^{}]*\})\s*,\s*)*)"items"\s*:\s*\[\s*(?=\{)'
)
_BOUNDARY = re.compile(
    rb'\}(\s*,\s*)(?=\{\s*(?:"(?:apiVersion|kind)"\s*:\s*"[^"]*"\s*,\s*"(?:apiVersion|kind)"\s*:\s*"[^"]*"\s*,\s*'
    rb'"metadata"|"metadata"\s*:\s*\{\s*"name")\s*:)'
)
_SPACE = re.compile(r"\s*")
_AFTER_ITEM = re.compile(r"\s*(?:(,)\s*|\])")
AUTOSCALER, _ITS_FLAG = autoscaler.PROGRAM.encode(), b"--cloud-provider"
API_SERVER, _ITS_FLAGS = api_server.PROGRAM.encode(), tuple(f"--{name}".encode() for name in api_server.FLAGS)
_container_owners = get_json_decoder(list[ContainerOwner])
_type_meta = get_json_decoder(TypeMeta)
_raw_items = get_json_decoder(list[msgspec.Raw])
_scan = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, OverflowError)


class ListReader:
    """Reads one list, whose beginning is in ``data``."""

    def __init__(self, data: bytes, head: re.Match[bytes], reader: Reader, collector: Collector, place: Place) -> None:
        self._buffer, self._reader, self._collector, self._place = data[head.end() :], reader, collector, place
        self._head = b"{" + head[1]
        meta = self._parse(self._head + b'"items":[]}', place)
        self._kind = meta.get("kind", "").removesuffix("List")
        self._version = meta.get("apiVersion", "") if self._kind else ""
        self._known = unique_kind_name(self._kind, self._version)
        self._wanted = not self._kind or collector.wanted(self._known, self._version, place)
        self._index = 0
        self._new_fields = NewPodFields(self._tell_new_fields)
        self._kinds: set[str] = set()

    def read(self) -> bytes:
        """Collect all items; the bytes read that come after the list. Raises InputError."""
        while self._batch() or self._one_by_one():
            pass
        return self._end()

    def _batch(self) -> bool:
        """Take all whole items in the buffer but the last; False when it does not show where they end."""
        cut = _last_boundary(self._buffer)
        if cut is None:
            return False
        try:
            self._take(b"".join((b"[", memoryview(self._buffer)[: cut.start() + 1], b"]")))
        except _UNDECODABLE:
            return False
        self._buffer = self._buffer[cut.end() :] + self._reader.read(STEP)
        return True

    def _take(self, array: bytes) -> None:
        """Collect the items of an array. Raises _UNDECODABLE when it is none, InputError for what is in it."""
        if not self._wanted:
            skipped = len(_raw_items.decode(array))
            self._collector.skipped[self._kind] += skipped
            self._index += skipped
            return
        if is_newer_version(self._known, self._version):
            self._each([bytes(item) for item in _raw_items.decode(array)])
            return
        try:
            items: list[object] = get_items_decoder(self._known).decode(array)
            self._typed(items)
            looked_at = self._look_for_new_fields(array, items)
            only_pods = len(set(map(type, items))) == 1 and get_item_kind(items[0]) == "Pod"
            self._look_for_flags(b"[" + b",".join(looked_at) + b"]" if only_pods else array)
            self._index += len(items)
        except (msgspec.ValidationError, UnicodeDecodeError, OverflowError):
            self._look_for_flags(array)
            self._each([bytes(item) for item in _raw_items.decode(array)])

    def _look_for_flags(self, array: bytes) -> None:
        """The structs of pods and workloads leave out the command lines that are asked for here."""
        collector = self._collector
        if collector.autoscaler is None and AUTOSCALER in array and _ITS_FLAG in array:
            with suppress(*_UNDECODABLE):
                collector.autoscaler = autoscaler.find_autoscaler(_container_owners.decode(array), self._kind)
        if collector.api_server is None and API_SERVER in array and any(flag in array for flag in _ITS_FLAGS):
            with suppress(*_UNDECODABLE):
                collector.api_server = api_server.find_api_server(_container_owners.decode(array), self._kind)

    def _look_for_new_fields(self, array: bytes, items: list[object]) -> list[msgspec.Raw]:
        """The JSON of the pods that were looked at: of pods of one template the first."""
        looked_at = self._new_fields.check_items(items, partial(_raw_items.decode, array), self._index)
        whole = (
            {type(item) for item in items if get_item_kind(item) in FULLY_KNOWN_KINDS} if self._known != "Pod" else ()
        )
        raw = _raw_items.decode(array) if whole else ()
        for number, (item, document) in enumerate(zip(items, raw, strict=False), self._index):
            if type(item) in whole:
                kind = get_item_kind(item)
                self._collector.look_at_all_fields(kind, msgspec.json.decode(document), self._place.item(number))
        return looked_at

    def _tell_new_fields(self, pod: JsonObject, number: int) -> None:
        self._collector.look_for_new_fields(pod, self._place.item(number))

    def _typed(self, items: list[object]) -> None:
        """Collect decoded items: all of them, or none when it raises."""
        runs: list[tuple[str, Any]] = []
        start = self._index
        for alike in ([*run] for _, run in groupby(items, type)):
            kind = get_item_kind(alike[0])
            runs.append((kind, self._collector.checked(kind, alike, partial(self._nth, start))))
            start += len(alike)
        for kind, objects in runs:
            self._kinds.add(kind)
            self._collector.add(kind, objects, self._place.origin)

    def _nth(self, start: int, index: int) -> Place:
        return self._place.item(start + index)

    def _each(self, items: list[bytes]) -> None:
        """Collect items of which some is of a kind that is not read, has a null, or is wrong."""
        for item in items:
            place = self._place.item(self._index)
            try:
                self._item(item, place)
            except _UNDECODABLE:
                document = self._parse(item, place)
                given = {"kind": self._kind, "apiVersion": self._version} if self._kind else {}
                self._collector.document(given | document if isinstance(document, dict) else document, place)
            self._index += 1

    def _parse(self, data: bytes, place: Place) -> Any:
        """The value that JSON is, strictly. Raises InputError."""
        try:
            return next(parse_json(decode_utf8(data, place.file), place.file)).value
        except InputError as error:
            raise place.error(error.what) from None

    def _item(self, data: bytes, place: Place) -> None:
        """Collect one item. Raises _UNDECODABLE when its struct cannot be made of it."""
        meta = _type_meta.decode(data)
        version = meta.api_version or self._version
        kind = unique_kind_name(meta.kind or self._kind, version)
        if not self._collector.wanted(kind, version, place):
            if is_custom_group(group_of(version)):
                raise msgspec.ValidationError(version)  # whether its operator makes pods is seen in its fields
            self._collector.skipped[kind] += 1
            return
        self._kinds.add(kind)
        if is_newer_version(kind, version):
            raise msgspec.ValidationError(version)  # it is looked at field by field
        objects = self._collector.checked(kind, [get_item_decoder(kind).decode(data)], lambda _: place)
        self._collector.add(kind, objects, place.origin)

    def _one_by_one(self) -> bool:
        """Take the whole items in the buffer; False after the last item of the list."""
        text = self._buffer.decode("latin-1")  # a byte a character: only the structure matters here
        start, more = 0, True
        items: list[bytes] = []
        while more:
            start = _SPACE.match(text, start).end()  # type: ignore[union-attr]
            try:
                _, end = _scan(text, start)
            except json.JSONDecodeError as error:
                self._refuse(error, len(text), self._index + len(items))
                break
            after = _AFTER_ITEM.match(text, end)
            if after is None:
                if text[end:].strip():
                    raise self._place.item(self._index + len(items)).error("invalid JSON: expected , or ] after it")
                break
            items.append(self._buffer[start:end])
            start, more = after.end(), bool(after[1])
        try:
            self._take(b"[" + b",".join(items) + b"]")
        except _UNDECODABLE:
            self._each(items)
        self._buffer = self._buffer[start:]
        return more and self._more()

    def _refuse(self, error: json.JSONDecodeError, size: int, index: int) -> None:
        """Raise unless the item may only be cut off by the end of the buffer."""
        cut_off = error.pos > size - 64 or error.msg.startswith("Unterminated")
        if not cut_off:
            raise self._place.item(index).error(f"invalid JSON: {describe_json_error(error)}") from None

    def _more(self) -> bool:
        """Read on, into a buffer at least twice as large. Raises InputError when that is of no use."""
        place = self._place.item(self._index)
        if len(self._buffer) > LARGEST_ITEM:
            raise place.error(f"larger than {LARGEST_ITEM >> 20} MiB")
        more = self._reader.read(max(STEP, len(self._buffer)))
        if not more:
            raise place.error("invalid JSON: the file ends in the middle of it")
        self._buffer += more
        return True

    def _end(self) -> bytes:
        """Check what follows the items; the bytes after the list."""
        while True:
            text = (self._head + b'"items":[]').decode("latin-1") + self._buffer.decode("latin-1")
            try:
                _, end = _scan(text)
                break
            except json.JSONDecodeError:
                more = self._reader.read(STEP)
                if not more or len(self._buffer) > LARGEST_ITEM:
                    raise self._place.error("invalid JSON: the end of the list is missing") from None
                self._buffer += more
        rest = len(self._buffer) - (len(text) - end)
        envelope = self._parse(self._head + b'"items":[]' + self._buffer[:rest], self._place)
        kind = envelope.get("kind")
        if not isinstance(kind, str) or not kind.endswith("List"):
            raise self._place.error("a list of Kubernetes objects has a kind that ends in List")
        kinds = {self._known} if self._kind else self._kinds
        self._collector.covers(kinds, envelope.get("metadata"), self._place)
        return self._buffer[rest:]


def big_list(data: bytes) -> re.Match[bytes] | None:
    """The beginning of the data up to the first item, when it is a list of objects."""
    return _HEAD.match(data)


def _last_boundary(data: bytes) -> re.Match[bytes] | None:
    """Between the last two items that begin in the data."""
    return _last(data, max(len(data) - _WINDOW, 0)) or _last(data, 0)


def _last(data: bytes, start: int) -> re.Match[bytes] | None:
    return max(_BOUNDARY.finditer(data, start), key=re.Match.start, default=None)
