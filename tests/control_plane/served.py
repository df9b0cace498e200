"""A control plane behind HTTP that answers lists, gets and writes, and a client like kubectl."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from control_plane.store import CLUSTER_SCOPED, Key, RefusedError, Store

Json = dict[str, Any]
GROUPS = {
    "apps/v1": ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"),
    "batch/v1": ("Job",),
    "policy/v1": ("PodDisruptionBudget",),
    "scheduling.k8s.io/v1": ("PriorityClass",),
    "storage.k8s.io/v1": ("StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment"),
    "resource.k8s.io/v1": ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice"),
    "v1": ("Pod", "Node", "Namespace", "Service", "PersistentVolume", "PersistentVolumeClaim", "ReplicationController"),
}
VERSIONS = {kind: version for version, kinds in GROUPS.items() for kind in kinds}
SORTS = {f"application/{name}-patch+json": sort for name, sort in (("json", "json"), ("merge", "merge"))}
SORTS["application/strategic-merge-patch+json"] = "strategic"


def get_plural(kind: str) -> str:
    """Return the plural of a kind in URLs.

    >>> plural("StorageClass"), plural("CSIStorageCapacity"), plural("Pod")
    ('storageclasses', 'csistoragecapacities', 'pods')
    """
    name = kind.lower()
    if name.endswith("y"):
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith("s") else f"{name}s"


KINDS = {get_plural(kind): kind for kind in VERSIONS}


def build_path(key: Key) -> str:
    version = VERSIONS[key.kind]
    within = "" if key.kind in CLUSTER_SCOPED else f"/namespaces/{key.namespace}"
    return f"{'/apis' if '/' in version else '/api'}/{version}{within}/{get_plural(key.kind)}/{key.name}"


def _parse_path(path: str) -> tuple[str, Key] | None:
    """Return the kind and the key of a path, with an empty name for a list, or None for any other path."""
    parts = path.strip("/").split("/")
    version, rest = ("v1", parts[2:]) if parts[0] == "api" else ("/".join(parts[1:3]), parts[3:])
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    kind = KINDS.get(rest[0]) if rest else None
    if kind is None or VERSIONS[kind] != version or len(rest) > 2:
        return None
    return kind, Key(kind, namespace, rest[1] if len(rest) == 2 else "")


class ServedControlPlane:
    """A store that answers in JSON. ``after`` is called once something was written."""

    def __init__(self, store: Store, after: Callable[[Store], None], make: Callable[[int, bytes], Any]) -> None:
        self.store, self.after, self._make = store, after, make

    def read(self, path: str, query: Mapping[str, str]) -> Any:
        """Return a list or an object, or None if the path is not served."""
        found = None if "watch" in query else _parse_path(path)
        if found is None:
            return None
        kind, key = found
        if key.name:
            return self._answer(lambda: self.store.read(key))
        items = [each for each in self.store.of_kind(kind) if key.namespace in ("", Key.of(each).namespace)]
        head = {"kind": f"{kind}List", "apiVersion": VERSIONS[kind], "metadata": {"resourceVersion": "1"}}
        return self._make(HTTPStatus.OK, json.dumps({**head, "items": items}).encode())

    def write(self, method: str, path: str, content_type: str, body: bytes) -> Any:
        """Carry out a request that changes an object, and return the response."""
        found = _parse_path(path)
        if found is None:
            return self._make(HTTPStatus.NOT_FOUND, b"{}")
        _, key = found
        document = json.loads(body) if body else {}
        doing: dict[str, Callable[[], Json | None]] = {
            "POST": lambda: self.store.create(document),
            "PUT": lambda: self.store.update(document),
            "PATCH": lambda: self.store.patch(key, document, SORTS[content_type]),
            "DELETE": lambda: self.store.delete(key),
        }
        response = self._answer(doing[method])
        self.after(self.store)
        return response

    def _answer(self, do: Callable[[], Json | None]) -> Any:
        """Return the response with the object that ``do`` returns, or with a Status if it is rejected."""
        try:
            return self._make(HTTPStatus.OK, json.dumps(do() or {}).encode())
        except RefusedError as error:
            code = HTTPStatus.NOT_FOUND if "NotFound" in str(error) else HTTPStatus.UNPROCESSABLE_ENTITY
            return self._make(code, json.dumps({"kind": "Status", "message": str(error), "code": code}).encode())


class Client(Store):
    """An HTTP client with the requests of kubectl."""

    def __init__(self, url: str) -> None:
        super().__init__(())
        self.url = url

    def get(self, key: Key) -> Json | None:
        """Return the object, or None if the server rejects the request."""
        try:
            return self.read(key)
        except RefusedError:
            return None

    def read(self, key: Key) -> Json:
        return self._request("GET", build_path(key))

    def create(self, document: Json) -> Json:
        return self._request("POST", build_path(Key.of(document)).rpartition("/")[0], document)

    def update(self, document: Json, why: str = "", subresource: str = "") -> Json:
        return self._request("PUT", build_path(Key.of(document)), document)

    def patch(self, key: Key, patch: Any, sort: str, subresource: str = "") -> Json:
        content_type = next(name for name, own in SORTS.items() if own == sort)
        return self._request("PATCH", f"{build_path(key)}/{subresource}".rstrip("/"), patch, content_type)

    def delete(self, key: Key) -> None:
        self._request("DELETE", build_path(key))

    def _request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Json:
        """Send a request, and return the decoded response.

        Raises RefusedError with the server's message if the request is rejected.
        """
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.url}{path}", data, {"Content-Type": content_type}, method=method)
        try:
            with urlopen(request, timeout=60) as response:
                found: Json = json.loads(response.read())
        except HTTPError as error:
            raise RefusedError(json.loads(error.read()).get("message", str(error))) from None
        return deepcopy(found)
