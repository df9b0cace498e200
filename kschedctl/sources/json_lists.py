"""Long JSON lists read piece by piece, so that items become structs while the rest is still in the file.

A piece ends where the text looks like the end of one item and the beginning of the next. That is a guess, which
decoding checks: if the cut is anywhere deeper, brackets do not match, and the items are read one by one.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any

import msgspec

from kschedctl.api import component_flags
from kschedctl.api.api_versions import get_group
from kschedctl.api.component_flags import ContainerOwner
from kschedctl.api.decoding import get_json_decoder
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kinds import unique_kind_name
from kschedctl.api.operator_resources import is_custom_group
from kschedctl.api.versions_read import is_newer_version
from kschedctl.errors import InputError
from kschedctl.sources.collector import Collector
from kschedctl.sources.documents.documents import decode_utf8
from kschedctl.sources.documents.files import Reader
from kschedctl.sources.documents.json_documents import describe_json_error, parse_json
from kschedctl.sources.documents.place import Place
from kschedctl.sources.list_items import TypeMeta, get_item_decoder, get_item_kind, get_items_decoder
from kschedctl.sources.new_fields import FULLY_KNOWN_KINDS, NewPodFields

CHUNK_SIZE = 128 << 10  # bytes read at a time: few enough to stay in a processor's cache
"""The number of bytes that are read at a time, few enough to stay in a processor's cache."""
MAX_ITEM_SIZE = 64 << 20
"""The maximum size of an item in bytes."""
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
AUTOSCALER, _AUTOSCALER_FLAG = component_flags.AUTOSCALER.encode(), b"--cloud-provider"
API_SERVER = component_flags.API_SERVER.encode()
_API_SERVER_FLAGS = tuple(f"--{name}".encode() for name in component_flags.API_SERVER_FLAGS)
_container_owners = get_json_decoder(list[ContainerOwner])
_type_meta = get_json_decoder(TypeMeta)
_raw_items = get_json_decoder(list[msgspec.Raw])
_scan = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, OverflowError)


class ListReader:
    """A reader of one list, of which ``data`` is the beginning."""

    def __init__(self, data: bytes, head: re.Match[bytes], reader: Reader, collector: Collector, place: Place) -> None:
        self._buffer = data[head.end() :]
        self._reader = reader
        self._collector = collector
        self._place = place
        self._head = b"{" + head[1]
        meta = self._parse_strictly(self._head + b'"items":[]}', place)
        self._kind = meta.get("kind", "").removesuffix("List")
        self._version = meta.get("apiVersion", "") if self._kind else ""
        self._known = unique_kind_name(self._kind, self._version)
        self._wanted = not self._kind or collector.is_wanted(self._known, self._version, place)
        self._index = 0
        self._new_fields = NewPodFields(self._warn_of_new_fields)
        self._kinds: set[str] = set()

    def read(self) -> bytes:
        """Collect all items and return the bytes after the list. Raises InputError."""
        while self._read_batch() or self._scan_items():
            pass
        return self._finish()

    def _read_batch(self) -> bool:
        """Collect all complete items in the buffer but the last, and read more input.

        Return False if the ends of items cannot be recognized in the buffer.
        """
        boundary = _find_last_boundary(self._buffer)
        if boundary is None:
            return False
        try:
            self._collect_array(b"".join((b"[", memoryview(self._buffer)[: boundary.start() + 1], b"]")))
        except _UNDECODABLE:
            return False
        self._buffer = self._buffer[boundary.end() :] + self._reader.read(CHUNK_SIZE)
        return True

    def _collect_array(self, array: bytes) -> None:
        """Collect the items of an array.

        Raises one of _UNDECODABLE if the bytes are not an array, and InputError if an item is invalid.
        """
        if not self._wanted:
            skipped = len(_raw_items.decode(array))
            self._collector.skipped[self._kind] += skipped
            self._index += skipped
            return
        if is_newer_version(self._known, self._version):
            self._collect_separately([bytes(item) for item in _raw_items.decode(array)])
            return
        try:
            items: list[object] = get_items_decoder(self._known).decode(array)
            self._collect_decoded(items)
            checked_pods = self._find_new_fields(array, items)
            only_pods = len(set(map(type, items))) == 1 and get_item_kind(items[0]) == "Pod"
            self._find_flags(b"[" + b",".join(checked_pods) + b"]" if only_pods else array)
            self._index += len(items)
        except (msgspec.ValidationError, UnicodeDecodeError, OverflowError):
            self._find_flags(array)
            self._collect_separately([bytes(item) for item in _raw_items.decode(array)])

    def _find_flags(self, array: bytes) -> None:
        """Find the flags of the Cluster Autoscaler and of kube-apiserver, which are not in the structs."""
        collector = self._collector
        if collector.autoscaler is None and AUTOSCALER in array and _AUTOSCALER_FLAG in array:
            with suppress(*_UNDECODABLE):
                collector.autoscaler = component_flags.find_autoscaler(_container_owners.decode(array), self._kind)
        if collector.api_server is None and API_SERVER in array and any(flag in array for flag in _API_SERVER_FLAGS):
            with suppress(*_UNDECODABLE):
                collector.api_server = component_flags.find_api_server(_container_owners.decode(array), self._kind)

    def _find_new_fields(self, array: bytes, items: list[object]) -> list[msgspec.Raw]:
        """Warn about new fields, and return the JSON of the pods that were checked, one of each template."""
        checked_pods = self._new_fields.check_items(items, partial(_raw_items.decode, array), self._index)
        if self._known != "Pod":
            item_types = {type(item) for item in items if get_item_kind(item) in FULLY_KNOWN_KINDS}
            raw = _raw_items.decode(array) if item_types else ()
            for number, (item, document) in enumerate(zip(items, raw, strict=False), self._index):
                if type(item) in item_types:
                    kind = get_item_kind(item)
                    self._collector.warn_of_new_fields(kind, msgspec.json.decode(document), self._place.item(number))
        return checked_pods

    def _warn_of_new_fields(self, pod: JsonObject, number: int) -> None:
        """Warn about new fields of a pod."""
        self._collector.warn_of_new_pod_fields(pod, self._place.item(number))

    def _collect_decoded(self, items: list[object]) -> None:
        """Collect decoded items. If one is invalid, none is collected. Raises InputError."""
        runs: list[tuple[str, Any]] = []
        start = self._index
        for same_kind_items in ([*run] for _, run in groupby(items, type)):
            kind = get_item_kind(same_kind_items[0])
            runs.append((kind, self._collector.check_items(kind, same_kind_items, partial(self._get_place, start))))
            start += len(same_kind_items)
        for kind, objects in runs:
            self._kinds.add(kind)
            self._collector.add_objects(kind, objects, self._place.origin)

    def _get_place(self, start: int, index: int) -> Place:
        """Return the place of an item in a batch that begins at item ``start``."""
        return self._place.item(start + index)

    def _collect_separately(self, items: list[bytes]) -> None:
        """Collect items one by one, since at least one is of another kind, has a null, or is invalid.

        Raises InputError.
        """
        for item in items:
            place = self._place.item(self._index)
            try:
                self._collect_item(item, place)
            except _UNDECODABLE:
                document = self._parse_strictly(item, place)
                defaults = {"kind": self._kind, "apiVersion": self._version} if self._kind else {}
                self._collector.add_document(defaults | document if isinstance(document, dict) else document, place)
            self._index += 1

    def _parse_strictly(self, data: bytes, place: Place) -> Any:
        """Parse a JSON text. Raises InputError."""
        try:
            return next(parse_json(decode_utf8(data, place.file), place.file)).value
        except InputError as error:
            raise place.error(error.what) from None

    def _collect_item(self, data: bytes, place: Place) -> None:
        """Collect one item. Raises one of _UNDECODABLE if the item cannot be decoded into its struct."""
        meta = _type_meta.decode(data)
        version = meta.api_version or self._version
        kind = unique_kind_name(meta.kind or self._kind, version)
        if not self._collector.is_wanted(kind, version, place):
            if is_custom_group(get_group(version)):
                raise msgspec.ValidationError(version)  # whether its operator makes pods is seen in its fields
            self._collector.skipped[kind] += 1
            return
        self._kinds.add(kind)
        if is_newer_version(kind, version):
            raise msgspec.ValidationError(version)  # it is looked at field by field
        objects = self._collector.check_items(kind, [get_item_decoder(kind).decode(data)], lambda _: place)
        self._collector.add_objects(kind, objects, place.origin)

    def _scan_items(self) -> bool:
        """Collect the complete items in the buffer. Return False after the last item of the list."""
        text = self._buffer.decode("latin-1")  # a byte a character: only the structure matters here
        start, more = 0, True
        items: list[bytes] = []
        while more:
            start = _SPACE.match(text, start).end()  # type: ignore[union-attr]
            try:
                _, end = _scan(text, start)
            except json.JSONDecodeError as error:
                self._raise_unless_cut_off(error, len(text), self._index + len(items))
                break
            after = _AFTER_ITEM.match(text, end)
            if after is None:
                if text[end:].strip():
                    raise self._place.item(self._index + len(items)).error("invalid JSON: expected , or ] after it")
                break
            items.append(self._buffer[start:end])
            start = after.end()
            more = bool(after[1])
        try:
            self._collect_array(b"[" + b",".join(items) + b"]")
        except _UNDECODABLE:
            self._collect_separately(items)
        self._buffer = self._buffer[start:]
        return more and self._extend_buffer()

    def _raise_unless_cut_off(self, error: json.JSONDecodeError, size: int, index: int) -> None:
        """Raise InputError unless the item may be incomplete only because the buffer ends."""
        cut_off = error.pos > size - 64 or error.msg.startswith("Unterminated")
        if not cut_off:
            raise self._place.item(index).error(f"invalid JSON: {describe_json_error(error)}") from None

    def _extend_buffer(self) -> bool:
        """Read more input, at least doubling the buffer. Raises InputError at end of file."""
        place = self._place.item(self._index)
        if len(self._buffer) > MAX_ITEM_SIZE:
            raise place.error(f"larger than {MAX_ITEM_SIZE >> 20} MiB")
        more = self._reader.read(max(CHUNK_SIZE, len(self._buffer)))
        if not more:
            raise place.error("invalid JSON: the file ends in the middle of it")
        self._buffer += more
        return True

    def _finish(self) -> bytes:
        """Check the fields after the items and return the bytes after the list. Raises InputError."""
        while True:
            text = (self._head + b'"items":[]').decode("latin-1") + self._buffer.decode("latin-1")
            try:
                _, end = _scan(text)
                break
            except json.JSONDecodeError:
                more = self._reader.read(CHUNK_SIZE)
                if not more or len(self._buffer) > MAX_ITEM_SIZE:
                    raise self._place.error("invalid JSON: the end of the list is missing") from None
                self._buffer += more
        list_size = len(self._buffer) - (len(text) - end)
        envelope = self._parse_strictly(self._head + b'"items":[]' + self._buffer[:list_size], self._place)
        kind = envelope.get("kind")
        if not isinstance(kind, str) or not kind.endswith("List"):
            raise self._place.error("a list of Kubernetes objects has a kind that ends in List")
        kinds = {self._known} if self._kind else self._kinds
        self._collector.add_covered_kinds(kinds, envelope.get("metadata"), self._place)
        return self._buffer[list_size:]


def match_list_head(data: bytes) -> re.Match[bytes] | None:
    """Match a list of objects up to its first item, or return None if the data begins otherwise."""
    return _HEAD.match(data)


def _find_last_boundary(data: bytes) -> re.Match[bytes] | None:
    """Return the last boundary between two items in the data, or None."""
    return _find_last_match(data, max(len(data) - _WINDOW, 0)) or _find_last_match(data, 0)


def _find_last_match(data: bytes, start: int) -> re.Match[bytes] | None:
    """Return the last boundary after ``start``, or None."""
    return max(_BOUNDARY.finditer(data, start), key=re.Match.start, default=None)
