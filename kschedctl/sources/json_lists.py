"""Long JSON lists read piece by piece, so that items become structs while the rest is still in the file.

A piece ends where the text looks like the end of one item and the beginning of the next. That is a guess, which
decoding checks: if the cut is anywhere deeper, brackets do not match, and the items are read one by one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

import msgspec

from kschedctl.api import component_flags
from kschedctl.api.api_versions import get_group
from kschedctl.api.component_flags import ContainerOwner
from kschedctl.api.decoding import get_json_decoder
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kinds import get_unique_kind_name
from kschedctl.api.operator_resources import is_custom_group
from kschedctl.api.versions_read import is_unknown_newer_version
from kschedctl.errors import InputError
from kschedctl.sources.collector import Collector
from kschedctl.sources.documents.documents import decode_utf8
from kschedctl.sources.documents.files import Reader
from kschedctl.sources.documents.json_documents import describe_json_error, parse_json
from kschedctl.sources.documents.place import Place
from kschedctl.sources.list_items import TypeMeta, get_item_decoder, get_item_kind, get_items_decoder
from kschedctl.sources.new_fields import FULLY_KNOWN_KINDS, NewPodFields

CHUNK_SIZE = 128 << 10
"""The number of bytes that are read at a time, few enough to stay in a processor's cache."""
MAX_ITEM_SIZE = 64 << 20
"""The maximum size of an item in bytes."""
_SEARCH_WINDOW = 16 << 10
"""The number of bytes at the end of the buffer in which the last boundary is searched for first."""
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

_Component = TypeVar("_Component")


class _ScannedItems(NamedTuple):
    """The complete items at the beginning of a buffer."""

    items: list[bytes]
    end: int
    """The offset after the last complete item and the comma or bracket that follows."""
    has_next: bool
    """False if the last complete item is the last one of the list."""


class _DocumentNeededError(Exception):
    """Raised for an item whose struct lacks the fields that decide how it is read. Its document has them."""


class ListReader:
    """A reader of one list, which passes the items to a collector."""

    def __init__(self, data: bytes, head: re.Match[bytes], reader: Reader, collector: Collector, place: Place) -> None:
        """``data`` is the beginning of the list, and ``head`` its match up to the first item."""
        self._buffer = data[head.end() :]
        self._reader = reader
        self._collector = collector
        self._place = place
        self._head = b"{" + head[1]
        """The beginning of the list up to its items."""
        meta = self._parse_json_strictly(self._head + b'"items":[]}', place)
        self._kind = meta.get("kind", "").removesuffix("List")
        """The kind of all items, or "" for a List whose items have their own kinds."""
        self._version = meta.get("apiVersion", "") if self._kind else ""
        self._unique_kind = get_unique_kind_name(self._kind, self._version)
        self._is_wanted = not self._kind or collector.accepts_kind_and_version(self._unique_kind, self._version, place)
        self._index = 0
        """The index of the next item."""
        self._new_fields = NewPodFields(self._warn_of_new_pod_fields)
        self._collected_kinds: set[str] = set()
        """The unique kinds of the collected items."""

    def read_list(self) -> bytes:
        """Read the list to its end, collect all items, and return the bytes after the list.

        Raises InputError if the list is malformed.
        """
        # Most batches are recognized by the look of their text; the others need a scan, which also finds the last item
        while self._read_batch() or self._scan_items():
            pass
        return self._parse_list_end()

    def _read_batch(self) -> bool:
        """Decode the complete items in the buffer, drop them from it, and read more input.

        The last item in the buffer may be incomplete and stays there. Return False, changing nothing, if no boundary
        between items is recognized or the items before it cannot be decoded.
        """
        boundary = _find_last_boundary(self._buffer)
        if boundary is None:
            return False
        items_end = boundary.start() + 1  # A boundary begins with the closing brace of an item.
        try:
            self._collect_array(b"".join((b"[", memoryview(self._buffer)[:items_end], b"]")))
        except _UNDECODABLE:
            return False
        self._buffer = self._buffer[boundary.end() :] + self._reader.read(CHUNK_SIZE)
        return True

    def _collect_array(self, array: bytes) -> None:
        """Collect the items of an array, all at once or, if one of them does not fit its struct, one by one.

        Items of a kind that is not read are only counted as skipped. Raises one of _UNDECODABLE if the bytes are not an
        array, and InputError if an item is invalid.
        """
        if not self._is_wanted:
            skipped_count = len(_raw_items.decode(array))
            self._collector.skipped[self._kind] += skipped_count
            self._index += skipped_count
            return
        if is_unknown_newer_version(self._unique_kind, self._version):
            self._collect_one_by_one([bytes(item) for item in _raw_items.decode(array)])
            return

        try:
            self._collect_all_at_once(array)
        except (msgspec.ValidationError, UnicodeDecodeError, OverflowError):
            self._record_component_flags(array)
            self._collect_one_by_one([bytes(item) for item in _raw_items.decode(array)])

    def _collect_all_at_once(self, array: bytes) -> None:
        """Decode the items of an array at once and collect them, with warnings about new fields and component flags.

        Raises msgspec.ValidationError, UnicodeDecodeError or OverflowError if an item does not fit its struct, and
        InputError if an item is invalid.
        """
        items: list[object] = get_items_decoder(self._unique_kind).decode(array)
        self._collect_decoded_items(items)
        checked_pods = self._check_new_fields(array, items)
        only_pods = len(set(map(type, items))) == 1 and get_item_kind(items[0]) == "Pod"
        # Pods of one template have the same flags, so one of them is enough.
        array_with_flags = b"[" + b",".join(checked_pods) + b"]" if only_pods else array
        self._record_component_flags(array_with_flags)
        self._index += len(items)

    def _record_component_flags(self, array: bytes) -> None:
        """Record the flags of the Cluster Autoscaler and kube-apiserver if their pods or workloads are in the array.

        Flags that were recorded before are kept.
        """
        collector = self._collector
        may_have_autoscaler = AUTOSCALER in array and _AUTOSCALER_FLAG in array
        if collector.autoscaler is None and may_have_autoscaler:
            collector.autoscaler = self._find_component(component_flags.find_cluster_autoscaler, array)
        may_have_api_server = API_SERVER in array and any(flag in array for flag in _API_SERVER_FLAGS)
        if collector.api_server is None and may_have_api_server:
            collector.api_server = self._find_component(component_flags.find_api_server, array)

    def _find_component(
        self, find: Callable[[list[ContainerOwner], str], _Component | None], array: bytes
    ) -> _Component | None:
        """Call `find` with the pods or workloads of the array.

        Return the result of `find`, or None if the array cannot be decoded.
        """
        try:
            return find(_container_owners.decode(array), self._kind)
        except _UNDECODABLE:
            return None

    def _check_new_fields(self, array: bytes, items: list[object]) -> list[msgspec.Raw]:
        """Record warnings about fields of the items that only a newer API has.

        Of the pods, only one per template is checked. Return the JSON of the checked pods.
        """
        checked_pods = self._new_fields.check_pods(items, partial(_raw_items.decode, array), self._index)
        if self._unique_kind == "Pod":
            return checked_pods
        if any(get_item_kind(item) in FULLY_KNOWN_KINDS for item in items):
            for index, (item, document) in enumerate(zip(items, _raw_items.decode(array), strict=True), self._index):
                kind = get_item_kind(item)
                if kind in FULLY_KNOWN_KINDS:
                    self._collector.warn_of_new_fields(kind, msgspec.json.decode(document), self._place.item(index))
        return checked_pods

    def _warn_of_new_pod_fields(self, pod: JsonObject, index: int) -> None:
        """Warn about new fields of the pod at an index of the list."""
        self._collector.warn_of_new_pod_fields(pod, self._place.item(index))

    def _collect_decoded_items(self, items: list[object]) -> None:
        """Collect decoded items. If an item is invalid, no item is collected.

        Raises InputError or msgspec.ValidationError for an invalid item.
        """
        checked_runs: list[tuple[str, Any]] = []
        start = self._index
        for _type, run in groupby(items, type):
            same_kind_items = list(run)
            kind = get_item_kind(same_kind_items[0])
            objects = self._collector.prepare_items(kind, same_kind_items, partial(self._get_item_place, start))
            checked_runs.append((kind, objects))
            start += len(same_kind_items)
        for kind, objects in checked_runs:
            self._collected_kinds.add(kind)
            self._collector.add_objects(kind, objects, self._place.origin)

    def _get_item_place(self, start: int, index: int) -> Place:
        """Return the place of the item at an index of a batch that begins at item ``start`` of the list."""
        return self._place.item(start + index)

    def _collect_one_by_one(self, items: list[bytes]) -> None:
        """Collect the JSON of items one by one, as structs if possible, and otherwise as documents.

        This is slow, but also works for items of other kinds, of newer versions, or with nulls. Raises InputError for
        an invalid item.
        """
        for item in items:
            place = self._place.item(self._index)
            try:
                self._collect_item(item, place)
            except (*_UNDECODABLE, _DocumentNeededError):
                document = self._parse_json_strictly(item, place)
                if isinstance(document, dict) and self._kind:  # items of typed lists have no kind of their own
                    document = {"kind": self._kind, "apiVersion": self._version} | document
                self._collector.add_document(document, place)
            self._index += 1

    def _parse_json_strictly(self, data: bytes, place: Place) -> Any:
        """Parse JSON with the strict parser for documents.

        Raises InputError with the place if the JSON is malformed.
        """
        try:
            return next(parse_json(decode_utf8(data, place.file), place.file)).value
        except InputError as error:
            raise place.error(error.what) from None

    def _collect_item(self, data: bytes, place: Place) -> None:
        """Collect the JSON of one item as a struct, or count it as skipped if its kind is not read.

        Raises one of _UNDECODABLE or _DocumentNeededError if the item has to be parsed as a document, and InputError if
        it is invalid.
        """
        meta = _type_meta.decode(data)
        version = meta.api_version or self._version
        kind = get_unique_kind_name(meta.kind or self._kind, version)
        if not self._collector.accepts_kind_and_version(kind, version, place):
            if is_custom_group(get_group(version)):
                raise _DocumentNeededError  # its fields show whether it creates pods
            self._collector.skipped[kind] += 1
            return
        self._collected_kinds.add(kind)
        if is_unknown_newer_version(kind, version):
            raise _DocumentNeededError  # its fields show whether it can be read
        objects = self._collector.prepare_items(kind, [get_item_decoder(kind).decode(data)], lambda _: place)
        self._collector.add_objects(kind, objects, place.origin)

    def _scan_items(self) -> bool:
        """Find the ends of the complete items in the buffer by parsing, collect the items, and read more input.

        Return False after the last item of the list. Raises InputError for invalid JSON.
        """
        items, end, has_next = self._find_complete_items()
        try:
            self._collect_array(b"[" + b",".join(items) + b"]")
        except _UNDECODABLE:
            self._collect_one_by_one(items)
        self._buffer = self._buffer[end:]
        if has_next:
            self._extend_buffer()
        return has_next

    def _find_complete_items(self) -> _ScannedItems:
        """Find the complete items in the buffer by parsing. An item that is cut off at the end of the buffer is left.

        Raises InputError for invalid JSON.
        """
        text = self._buffer.decode("latin-1")  # one character per byte, since only the structure matters
        start = 0
        has_next = True
        items: list[bytes] = []
        while has_next:
            start = _SPACE.match(text, start).end()  # type: ignore[union-attr]
            try:
                _, end = _scan(text, start)
            except json.JSONDecodeError as error:
                self._raise_unless_cut_off(error, len(text), self._index + len(items))
                break
            after = _AFTER_ITEM.match(text, end)
            if after is None:
                is_cut_off = not text[end:].strip()
                if not is_cut_off:
                    raise self._place.item(self._index + len(items)).error("invalid JSON: expected , or ] after it")
                break
            items.append(self._buffer[start:end])
            start = after.end()
            comma = after[1]
            has_next = comma is not None
        return _ScannedItems(items, end=start, has_next=has_next)

    def _raise_unless_cut_off(self, error: json.JSONDecodeError, size: int, index: int) -> None:
        """Raise InputError unless the item at an index may be incomplete only because the buffer ends."""
        is_near_end = error.pos > size - 64  # a token at the end of the buffer may be incomplete
        if not is_near_end and not error.msg.startswith("Unterminated"):
            raise self._place.item(index).error(f"invalid JSON: {describe_json_error(error)}") from None

    def _extend_buffer(self) -> None:
        """Read more input, at least doubling the buffer.

        Raises InputError if the file ends here or the current item is too large.
        """
        place = self._place.item(self._index)
        if len(self._buffer) > MAX_ITEM_SIZE:
            raise place.error(f"larger than {MAX_ITEM_SIZE >> 20} MiB")
        data = self._reader.read(max(CHUNK_SIZE, len(self._buffer)))
        if not data:
            raise place.error("invalid JSON: the file ends in the middle of it")
        self._buffer += data

    def _parse_list_end(self) -> bytes:
        """Parse the fields after the items, record the kinds of a complete list, and return the bytes after the list.

        More input is read if necessary. Raises InputError if the list does not end within MAX_ITEM_SIZE bytes, or if
        its kind is not a list kind.
        """
        # Without its items, the list is short enough to be parsed as a whole.
        list_start = self._head + b'"items":[]'
        while True:
            try:
                _, end = _scan((list_start + self._buffer).decode("latin-1"))  # one character per byte
                break
            except json.JSONDecodeError:
                data = self._reader.read(CHUNK_SIZE)
                if not data or len(self._buffer) > MAX_ITEM_SIZE:
                    raise self._place.error("invalid JSON: the end of the list is missing") from None
                self._buffer += data
        tail_size = end - len(list_start)
        envelope = self._parse_json_strictly(list_start + self._buffer[:tail_size], self._place)
        kind = envelope.get("kind")
        if not isinstance(kind, str) or not kind.endswith("List"):
            raise self._place.error('the kind of a list must end in "List"')
        kinds = {self._unique_kind} if self._kind else self._collected_kinds
        self._collector.add_covered_kinds(kinds, envelope.get("metadata"), self._place)
        return self._buffer[tail_size:]


def match_list_head(data: bytes) -> re.Match[bytes] | None:
    """Match the beginning of a list of objects up to its first item, or return None if the data begins otherwise."""
    return _HEAD.match(data)


def _find_last_boundary(data: bytes) -> re.Match[bytes] | None:
    """Return the last position in the data that looks like the boundary between two items, or None."""
    # The end of the data is searched first, since a boundary is usually near
    return _find_last_boundary_after(data, max(len(data) - _SEARCH_WINDOW, 0)) or _find_last_boundary_after(data, 0)


def _find_last_boundary_after(data: bytes, start: int) -> re.Match[bytes] | None:
    """Return the last position from ``start`` on that looks like the boundary between two items, or None."""
    return max(_BOUNDARY.finditer(data, start), key=re.Match.start, default=None)
