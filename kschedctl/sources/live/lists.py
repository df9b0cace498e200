"""Complete lists of a kind from an API server, read page by page, and watches of the changes after a list.

No resourceVersion is requested, so that the first page shows the newest state, and the continue token keeps the later
pages at the same state. If the token is too old (410), the list starts over.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import chain
from types import GenericAlias
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from kschedctl.api.api_versions import get_group, get_version_sort_key
from kschedctl.api.decoding import convert_builtins, decode_json, get_json_decoder
from kschedctl.api.events import is_irrelevant_object
from kschedctl.api.json_values import Json, JsonObject, drop_nulls, object_at
from kschedctl.api.kinds import KINDS, ReadFor
from kschedctl.api.noise import strip_unread_data
from kschedctl.api.objects import ContainerImage, Node, Pod, Struct
from kschedctl.api.pod_table import Key, PodTable, PodTableBuilder
from kschedctl.api.versions_read import describe_skipped, find_unknown_field, is_unknown_newer_version
from kschedctl.cluster import OBSERVED
from kschedctl.errors import ClusterError
from kschedctl.sources.decoding import validate_stored_names
from kschedctl.sources.list_items import PodItems, build_item_type
from kschedctl.sources.live.http import (
    BrokenOffError,
    Deadline,
    RefusedError,
    Server,
    StatusBody,
    TooLargeError,
    describe_decoding_error,
    quote_segment,
    shorten,
)
from kschedctl.sources.new_fields import FULLY_KNOWN_KINDS, NewFieldWarnings, NewPodFields

T = TypeVar("T")
log = logging.getLogger(__name__)

PAGE_SIZE, MIN_PAGE_SIZE = 500, 5
"""The usual and the smallest number of objects in a page."""
MAX_PAGES, MAX_OBJECTS = 10_000, 1_000_000
"""The maximum numbers of pages and objects of one list. Kubernetes supports 150,000 pods."""
MAX_RESTARTS = 3
GONE, NOT_FOUND, FORBIDDEN = 410, 404, 403


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    """The token of the next page, empty on the last page."""


class ListHead(msgspec.Struct, frozen=True):
    """A list without its items."""

    kind: str = ""
    metadata: ListMeta = ListMeta()


class Page(NamedTuple):
    """One page of a list."""

    metadata: ListMeta
    body: bytes
    items: Sequence[Any] | None
    """The decoded items, or None if the body needs to be converted first."""


class _GroupVersion(msgspec.Struct, frozen=True, rename="camel"):
    group_version: str = ""


class _ApiGroup(msgspec.Struct, frozen=True):
    """An API group with the versions that the server serves."""

    versions: tuple[_GroupVersion, ...] = ()


class LeftOutError(ClusterError):
    """An error for objects in a newer API version with fields that kschedctl does not know."""


class ObjectTuple(tuple[Struct, ...]):
    """Objects of a kind other than Pod, sorted by namespace and name."""

    @classmethod
    def of(cls, objects: Iterable[Struct]) -> ObjectTuple:
        """Build the tuple of objects, sorted by namespace and name."""
        return cls(sorted(objects, key=get_key))

    def apply_changes(self, changes: Mapping[Key, object]) -> ObjectTuple:
        """Return the objects after changes by namespace and name: a new or modified object, or None for a deletion."""
        objects: dict[Key, Any] = {get_key(obj): obj for obj in self} | dict(changes)
        return ObjectTuple.of(obj for obj in objects.values() if obj is not None)


Objects = PodTable | ObjectTuple


class Listing(NamedTuple):
    """The objects of a kind at one moment."""

    objects: Objects
    resource_version: str
    path: str
    """The URL path of the list."""
    fields: str = ""
    """The field selector of the list."""
    warnings: tuple[str, ...] = ()
    """Warnings about unknown fields."""

    @property
    def version(self) -> str:
        """The API version as written in apiVersion."""
        return _parse_api_version(self.path)


def read_list(server: Server, kind: str, namespace: str = "", fields: str = "") -> Listing:
    """List all objects of a kind, or only those in a namespace, in the first API version that the server serves.

    ``fields`` is a field selector. Versions known to kschedctl are tried before newer ones.

    Raises RefusedError if the server denies the request (403) or serves no version (404). Raises LeftOutError if an
    object in a newer version has unknown fields, and ClusterError if the request fails otherwise.
    """
    rejection: RefusedError | None = None
    for path in chain(iter_list_paths(kind, namespace), _iter_newer_paths(server, kind, namespace)):
        try:
            return read_list_at(server, kind, path, fields)
        except RefusedError as error:
            if error.code != NOT_FOUND:
                raise
            rejection = error
    assert rejection is not None  # every kind has at least one path
    raise rejection


def _find_newer_versions(server: Server, kind: str) -> Sequence[str]:
    """Return the API versions of a kind that the server offers and that are newer than all known versions.

    The versions nearest to the known ones come first. Return () for the core group, for kinds that are read only as
    history, such as events, and if the server does not list its versions. Upstream: the discovery of a group in
    staging/src/k8s.io/apiserver/pkg/endpoints/discovery/group.go (v1.36).
    """
    api_kind = KINDS[kind]
    group = get_group(api_kind.versions[0])
    if not group or api_kind.read_for is ReadFor.HISTORY:
        return ()
    try:
        api_group = server.get_decoded_body(f"/apis/{group}", None, get_json_decoder(_ApiGroup).decode)
    except (RefusedError, ClusterError) as error:
        log.info("versions of %s: %s", group, error)
        return ()
    served_versions = [version.group_version for version in api_group.versions]
    return sorted((name for name in served_versions if is_unknown_newer_version(kind, name)), key=get_version_sort_key)


def _iter_newer_paths(server: Server, kind: str, namespace: str) -> Iterator[str]:
    """Yield the URL path of the list in each newer API version that the server has.

    The server is asked for its versions when the first path is requested.
    """
    yield from iter_list_paths(kind, namespace, _find_newer_versions(server, kind))


def iter_list_paths(kind: str, namespace: str = "", versions: Sequence[str] | None = None) -> Iterator[str]:
    """Yield the URL path of the list in each API version, by default in all versions known for the kind.

    >>> list(iter_list_paths("Pod", "shop")), list(iter_list_paths("StorageClass"))
    (['/api/v1/namespaces/shop/pods'], ['/apis/storage.k8s.io/v1/storageclasses'])
    """
    scope = f"namespaces/{quote_segment(namespace)}/" if namespace else ""
    if versions is None:
        versions = KINDS[kind].versions
    for version in versions:
        root = "/apis" if "/" in version else "/api"  # the core group has no name
        yield f"{root}/{version}/{scope}{KINDS[kind].plural}"


def read_list_at(server: Server, kind: str, path: str, fields: str = "") -> Listing:
    """Return the complete list at a URL path, with only the objects that match the field selector ``fields``.

    The list starts over if its continue token expires, at most MAX_RESTARTS times. Raises RefusedError if the server
    denies the request, and ClusterError if the request fails otherwise.
    """
    for restart in range(MAX_RESTARTS + 1):
        try:
            return _read_all_pages(server, kind, path, fields)
        except RefusedError as error:
            if error.code != GONE or restart == MAX_RESTARTS:
                raise
            log.info("%s changed too fast to be listed at one point in time: starting over", KINDS[kind].plural)
    raise AssertionError("unreachable")


def _read_all_pages(server: Server, kind: str, path: str, fields: str) -> Listing:
    """Read all pages of a list and collect their objects.

    Raises RefusedError if the server denies a request. Raises ClusterError if a request fails otherwise, or if there
    are more than MAX_OBJECTS objects.
    """
    plural = KINDS[kind].plural
    collector = PodCollector() if kind == "Pod" else KindCollector(kind, _parse_api_version(path))
    version = ""
    object_count = 0
    for page in _iter_pages(server, kind, path, fields):
        version = version or page.metadata.resource_version
        with _convert_decoding_errors(plural, server.host):
            object_count += collector.add_page(page)
        if object_count > MAX_OBJECTS:
            raise ClusterError(f"more than {MAX_OBJECTS:,} {plural}, which no real cluster has", where=server.host)
    return Listing(collector.build_objects(), version, path, fields, tuple(collector.warnings))


def _iter_pages(server: Server, kind: str, path: str, fields: str) -> Iterator[Page]:
    """Yield the pages in order, while the next page is fetched in the background.

    Raises ClusterError if the list does not end, because a token repeats or there are too many pages.
    """
    end = Deadline.after(server.list_seconds)
    selector = {"fieldSelector": fields} if fields else {}
    tokens = {""}
    with ThreadPoolExecutor(1, f"{kind}-pages") as thread:
        next_page: Future[Page] | None = thread.submit(_fetch_page, server, kind, path, selector, end)
        while next_page is not None:
            page = next_page.result()
            token = page.metadata.continue_
            next_page = None
            if token:
                if token in tokens or len(tokens) == MAX_PAGES:
                    raise ClusterError(f"the list of {KINDS[kind].plural} never ends", where=server.host)
                tokens.add(token)
                next_page = thread.submit(_fetch_page, server, kind, path, {**selector, "continue": token}, end)
            yield page


def _fetch_page(server: Server, kind: str, path: str, parameters: Mapping[str, str], end: Deadline) -> Page:
    """Fetch one page. If the response is too large, fetch a smaller page.

    Raises RefusedError if the server denies the request, and ClusterError if the request fails otherwise.
    """
    limit = PAGE_SIZE
    while True:
        query = {"limit": str(limit), **parameters}
        try:
            return server.get_decoded_body(path, query, lambda body: _decode_page(kind, body), end)
        except TooLargeError:
            if limit <= MIN_PAGE_SIZE:
                raise
            limit //= 10


class KindCollector:
    """A collector of a kind's objects, without fields that scheduling does not read."""

    def __init__(self, kind: str, version: str) -> None:
        self._kind = kind
        self._version = version
        self._collected: list[Struct] = []
        self.warnings: list[str] = []
        self._field_warnings = NewFieldWarnings()
        self._images: dict[ContainerImage, ContainerImage] = {}

    def add_page(self, page: Page) -> int:
        """Add the objects of a page that matter, without fields that scheduling does not read.

        Return the number of all objects in the page. Warnings about unknown fields are recorded. Raises LeftOutError
        for unknown fields in a newer version, and ValueError, OverflowError or RecursionError if the page cannot be
        decoded.
        """
        self._check_unknown_fields(page)
        objects = _decode_items(page, KINDS[self._kind].struct)
        validate_stored_names(chain.from_iterable(map(get_key, objects)))
        for obj in objects:
            if self._kind in OBSERVED and is_irrelevant_object(obj):
                continue
            stripped_object = strip_unread_data(obj)
            if isinstance(stripped_object, Node):
                stripped_object = self._share_images(stripped_object)
            self._collected.append(stripped_object)
        return len(objects)

    def _check_unknown_fields(self, page: Page) -> None:
        """Raise LeftOutError for unknown fields in a newer version. In known versions, record warnings about them.

        Objects that are not of FULLY_KNOWN_KINDS get no warnings. Raises ValueError or RecursionError if the page
        cannot be decoded.
        """
        if is_unknown_newer_version(self._kind, self._version):
            _reject_unknown_fields(self._kind, self._version, decode_json(page.body, _Documents).items or ())
        elif self._kind in FULLY_KNOWN_KINDS:
            for document in decode_json(page.body, _Documents).items or ():
                place = _describe_object(self._kind, document)
                self.warnings += self._field_warnings.iter_warnings(self._kind, document, place)

    def build_objects(self) -> ObjectTuple:
        """Return the collected objects, sorted by namespace and name."""
        return ObjectTuple.of(self._collected)

    def _share_images(self, node: Node) -> Node:
        """Return the node with image structs shared between nodes, which saves memory."""
        images = tuple([self._images.setdefault(image, image) for image in node.status.images])
        return replace(node, status=replace(node.status, images=images))


class PodCollector:
    """A collector of pods as rows of a table."""

    def __init__(self) -> None:
        self._builder = PodTableBuilder()
        self._items = PodItems(self._builder)
        self.warnings: list[str] = []
        self._field_warnings = NewFieldWarnings()
        self._new_fields = NewPodFields(self._warn_of_new_fields)

    def _warn_of_new_fields(self, pod: JsonObject, index: int) -> None:
        """Record warnings about unknown fields of a pod. Its index in the list is not needed."""
        self.warnings += self._field_warnings.iter_pod_warnings(pod, _describe_object("Pod", pod))

    def add_page(self, page: Page) -> int:
        """Add the pods of a page, as rows of the table if possible, and return their number.

        If a field of a pod is null, the whole page is decoded again, more slowly and without nulls. Warnings about
        unknown fields are recorded. Raises ValueError, OverflowError or RecursionError if a pod cannot be decoded.
        """
        if page.items is not None:
            # The raw items are decoded only if some pod has a new template.
            decode_raw_items = partial(_decode_raw_items, page.body)
            self._new_fields.check_pods(page.items, decode_raw_items, start=0)
            with suppress(msgspec.ValidationError):  # raised if a field of a pod is null
                return self._add_rows(page.items)
        return self._add_decoded_again(page)

    def _add_rows(self, items: Sequence[Any]) -> int:
        """Add items as rows of the table, and return their number. Raises ValidationError if a field is null."""
        rows = self._items.build_rows(items, get_place=None)  # without places, since items of a server are valid
        validate_stored_names(chain(rows.namespaces, rows.names))
        self._builder.add_rows(rows)
        return len(items)

    def _add_decoded_again(self, page: Page) -> int:
        """Decode a page again, without nulls, add its pods and return their number."""
        pods = _decode_items(page._replace(items=None), Pod)
        validate_stored_names(chain.from_iterable(map(get_key, pods)))
        self._builder.add_pods(pods)
        return len(pods)

    def build_objects(self) -> PodTable:
        """Return the table of collected pods."""
        return self._items.build_table()


def get_key(obj: Struct) -> Key:
    """Return the namespace and name of an object."""
    meta = obj.metadata  # type: ignore[attr-defined]
    return meta.namespace, meta.name


def _describe_object(kind: str, document: JsonObject) -> str:
    """Return the kind, namespace and name of an object, as warnings show them."""
    meta = object_at(document, "metadata")
    namespace = meta.get("namespace")
    name = meta.get("name")
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


class _RawItems(msgspec.Struct, frozen=True):
    """A list whose items stay undecoded JSON."""

    items: list[msgspec.Raw] | None = None


def _decode_raw_items(body: bytes) -> Sequence[msgspec.Raw]:
    """Return the undecoded JSON of each item of a list."""
    return decode_json(body, _RawItems).items or ()


class _Documents(msgspec.Struct, frozen=True):
    """A list whose items are decoded to dicts."""

    items: list[dict[str, Json]] | None = None


def _reject_unknown_fields(kind: str, version: str, documents: Iterable[JsonObject]) -> None:
    """Raise LeftOutError if a document has an unknown field or a field of another type."""
    for document in documents:
        object_fields = drop_nulls(document)
        problem = find_unknown_field(kind, object_fields)
        try:
            convert_builtins(object_fields, KINDS[kind].struct)
        except msgspec.ValidationError as error:
            problem = problem or str(error).replace("`", "")
        if problem:
            raise LeftOutError(describe_skipped(version, problem))


def _parse_api_version(path: str) -> str:
    """Return the apiVersion of a list path.

    >>> _parse_api_version("/api/v1/namespaces/shop/pods"), _parse_api_version("/apis/apps/v1/replicasets")
    ('v1', 'apps/v1')
    """
    _, root, first, second, *_ = path.split("/")
    return f"{first}/{second}" if root == "apis" else first


def _decode_page(kind: str, body: bytes) -> Page:
    """Decode the body of a page. The items are None if they fit the struct only after a conversion.

    Raises ValueError or RecursionError if the body is not a list of the kind.
    """
    item = build_item_type("Pod") if kind == "Pod" else KINDS[kind].struct
    items: Sequence[Any] | None
    try:
        head = decode_json(body, _build_page_type(item))
        items = head.items or ()
    except msgspec.ValidationError:
        head = decode_json(body, ListHead)
        items = None
    expected_kind = f"{KINDS[kind].kind}List"
    if head.kind != expected_kind:
        raise msgspec.DecodeError(f"{head.kind or 'JSON'} instead of a {expected_kind}")
    return Page(head.metadata, body, items)


def _decode_items(page: Page, item: type[Struct]) -> Sequence[Any]:
    """Return the objects of a page, decoding them if necessary.

    Raises ValueError or RecursionError if an object cannot be decoded.
    """
    if page.items is not None:
        return page.items
    return _decode_without_nulls(_build_page_type(item), page.body).items or ()


def decode_object(kind: str, body: bytes, listing: Listing, where: str) -> Struct:
    """Decode one object in the API version of ``listing``. Nulls that do not fit their fields count as absent.

    Raises LeftOutError if an object in a newer version has unknown fields, and ClusterError if the object cannot be
    decoded.
    """
    with _convert_decoding_errors(f"a {kind}", where):
        if is_unknown_newer_version(kind, listing.version):
            _reject_unknown_fields(kind, listing.version, [decode_json(body, dict[str, Json])])
        obj: Struct = _decode_without_nulls(KINDS[kind].struct, body)
        validate_stored_names(get_key(obj))
        return obj


def _decode_without_nulls(struct: type[T], body: bytes) -> T:
    """Decode the body into the struct. If a null does not fit, fields with null count as absent, as in the API server.

    Raises msgspec.ValidationError if the body does not fit even without nulls.
    """
    try:
        return decode_json(body, struct)
    except msgspec.ValidationError:
        if b"null" not in body:
            raise
        return convert_builtins(drop_nulls(msgspec.json.decode(body)), struct)


@contextmanager
def _convert_decoding_errors(subject: str, where: str) -> Iterator[None]:
    """Convert decoding errors within the block to a ClusterError that names the subject and the place `where`."""
    try:
        yield
    except (ValueError, RecursionError, OverflowError) as error:
        raise ClusterError(f"{subject} of unexpected shape: {describe_decoding_error(error)}", where=where) from None


@cache
def _build_page_type(item: Any) -> Any:
    """Build the struct type of a page of a list whose items are of the given type."""
    items = GenericAlias(tuple, (item, ...)) | None
    return msgspec.defstruct(f"{item.__name__}Page", [("items", items, None)], bases=(ListHead,), frozen=True)


# -- watches -----------------------------------------------------------------------------------------------------

CATCH_UP_SECONDS = 2.0
"""The maximum time for catching up with the changes after a list."""
CATCH_UP_IDLE_SECONDS = 0.3
"""The time without an event after which no more changes are expected."""
Changes = Mapping[Key, Any]


class _Event(msgspec.Struct, frozen=True):
    """An event as the API server prints it."""

    type: str
    object: msgspec.Raw


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Versioned(msgspec.Struct, frozen=True):
    """An object reduced to its resource version."""

    metadata: _Meta = msgspec.field(default_factory=_Meta)


class WatchEvent(NamedTuple):
    """A change of one object, or a new resource version if there is no ``key``."""

    resource_version: str
    key: Key | None = None
    object: Struct | None = None
    """The added or modified object, or None if it was deleted."""


def watch_changes(
    server: Server, kind: str, listing: Listing, *, seconds: float, idle: float | None = None
) -> Iterator[WatchEvent]:
    """Yield the events after a listing's version, including bookmarks, for at most ``seconds`` seconds.

    Raises RefusedError (410) if the version is too old, so that the kind must be listed again. Raises BrokenOffError if
    the connection is lost or without data for ``idle`` seconds, LeftOutError if an object has unknown fields, and
    ClusterError if the request fails otherwise.
    """
    query = {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": listing.resource_version,
        "timeoutSeconds": str(max(int(seconds), 1)),
    }
    if listing.fields:
        query["fieldSelector"] = listing.fields
    for line in server.iter_lines(listing.path, query, seconds, idle):
        try:
            yield _parse_event(kind, line, listing, server.host)
        except (ValueError, RecursionError) as error:
            raise BrokenOffError(describe_decoding_error(error)) from None


def apply_changes(listing: Listing, changes: Changes, version: str) -> Listing:
    """Return the listing with the changes applied, in which None deletes an object, and the new resource version."""
    return listing._replace(objects=listing.objects.apply_changes(changes), resource_version=version)


class UpdatedListing(NamedTuple):
    """A listing with the changes that were made since it was read."""

    listing: Listing
    change_count: int | None
    """The number of changed objects, or None if the changes could not be watched."""


def catch_up_with_changes(server: Server, kind: str, listing: Listing) -> UpdatedListing:
    """Return the listing with all changes since its version applied, and the number of changed objects.

    Raises the same errors as ``watch_changes``.
    """
    changes: dict[Key, Struct | None] = {}
    version = listing.resource_version
    seconds = min(CATCH_UP_SECONDS, server.seconds)
    for event in watch_changes(server, kind, listing, seconds=seconds, idle=min(CATCH_UP_IDLE_SECONDS, seconds)):
        version = event.resource_version or version
        if event.key is not None:
            changes[event.key] = event.object
    if changes:
        listing = apply_changes(listing, changes, version)
    return UpdatedListing(listing, len(changes))


def _parse_event(kind: str, line: bytes, listing: Listing, where: str) -> WatchEvent:
    """Parse one line of a watch into an event. A bookmark becomes an event without a key.

    If the line is an error of the server, raises RefusedError (410) if the version is too old, and otherwise
    BrokenOffError. Raises LeftOutError or ClusterError if the object cannot be decoded, and ValueError or
    RecursionError if the line is malformed.
    """
    event = decode_json(line, _Event)
    body = bytes(event.object)
    if event.type == "ERROR":
        status = decode_json(body, StatusBody)
        if status.code == GONE or status.reason in ("Expired", "Gone"):
            raise RefusedError(GONE, shorten(status.message))
        raise BrokenOffError(shorten(status.message))
    if event.type not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
        raise BrokenOffError(f"not a watch event: {shorten(event.type)}")
    version = decode_json(body, _Versioned).metadata.resource_version
    if event.type == "BOOKMARK":
        return WatchEvent(version)
    obj = decode_object(kind, body, listing, where)
    return WatchEvent(version, get_key(obj), None if event.type == "DELETED" else strip_unread_data(obj))
