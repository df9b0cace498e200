"""Object names from an API server for shell completion, by short requests with the kubeconfig's static credentials.

The official client takes too long to import for completion. If the user needs a credential plugin or the cluster needs
a proxy, no names are returned.
"""

from __future__ import annotations

import base64
import http.client
import os
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from urllib.parse import quote, urlsplit

import msgspec

from kschedctl.api.decoding import decode_json
from kschedctl.api.json_values import JsonObject
from kschedctl.sources.completion_names import Kubeconfig, Meta, ObjectName

MAX_NAMES = 500
SECONDS = 1.0
"""The number of seconds to wait for a server that does not answer."""
PATHS = {
    "Pod": "/api/v1/pods",
    "Node": "/api/v1/nodes",
    "Namespace": "/api/v1/namespaces",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
}
ACCEPT = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"


class _Item(msgspec.Struct):
    """A list item reduced to its metadata."""

    metadata: Meta


class _List(msgspec.Struct):
    """A list of objects reduced to their metadata."""

    items: list[_Item]


def list_object_names(config: Kubeconfig, context: str, kind: str, namespace: str) -> list[ObjectName]:
    """Return the names of the first MAX_NAMES objects of a kind, for shell completion.

    ``config`` is the merged kubeconfig, and ``context`` is "" for its current context. For pods, the pending pods of
    all namespaces come first. The other pods of ``namespace``, or of all namespaces if it is "", follow. Return [] if
    the cluster needs a credential plugin or a proxy. Raises OSError, ValueError, KeyError or http.client.HTTPException
    if the kubeconfig or the response cannot be used.
    """
    contexts, clusters, users = config["contexts"], config["clusters"], config["users"]
    context_name = context or config["current-context"]
    context_entry = contexts[context_name]
    cluster_name = context_entry["cluster"]
    cluster = clusters[cluster_name]
    user = users.get(context_entry.get("user"), {})
    if "exec" in user or "auth-provider" in user or cluster.get("proxy-url"):
        return []
    with _open_connection(cluster, user) as connection:
        headers = {"Accept": ACCEPT, "User-Agent": "kschedctl", **_build_authorization(user)}
        if kind == "Pod":
            return _list_pod_names(connection, namespace, headers)
        return [ObjectName("", meta.name) for meta in _list_metadata(connection, PATHS[kind], headers)]


def _list_pod_names(
    connection: http.client.HTTPConnection, namespace: str, headers: Mapping[str, str]
) -> list[ObjectName]:
    """Return the pending pods of all namespaces, and then the other pods of ``namespace``, or of all if it is ""."""
    pending_path = f"{PATHS['Pod']}?fieldSelector={quote('spec.nodeName=,status.phase=Pending')}"
    pending_metas = _list_metadata(connection, pending_path, headers)
    pods_path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods" if namespace else PATHS["Pod"]
    all_metas = _list_metadata(connection, pods_path, headers)

    pending_pods = [ObjectName(meta.namespace, meta.name, pending=True) for meta in pending_metas]
    pending_keys = {(meta.namespace, meta.name) for meta in pending_metas}
    other_metas = [meta for meta in all_metas if (meta.namespace, meta.name) not in pending_keys]
    return [*pending_pods, *(ObjectName(meta.namespace, meta.name) for meta in other_metas)]


def get_default_namespace(config: Kubeconfig, context: str) -> str:
    """Return the default namespace of the context, or of the current context if ``context`` is ""."""
    context_entry = config["contexts"].get(context or config["current-context"], {})
    return context_entry.get("namespace") or "default"


def _list_metadata(connection: http.client.HTTPConnection, path: str, headers: Mapping[str, str]) -> Sequence[Meta]:
    """Return the metadata of the first MAX_NAMES objects at a path, or [] if the status is not 200."""
    separator = "&" if "?" in path else "?"
    connection.request("GET", f"{path}{separator}limit={MAX_NAMES}", headers=dict(headers))
    response = connection.getresponse()
    data = response.read()
    if response.status != 200:
        return []
    return [item.metadata for item in decode_json(data, _List).items]


@contextmanager
def _open_connection(cluster: Kubeconfig, user: Kubeconfig) -> Iterator[http.client.HTTPConnection]:
    """Open a connection to the cluster's server for the block.

    Raises ValueError if the server URL has a path.
    """
    url = urlsplit(cluster["server"])
    if url.path.strip("/"):
        raise ValueError(cluster["server"])
    if url.scheme == "http":
        connection = http.client.HTTPConnection(url.netloc, timeout=SECONDS)
    else:
        context = _build_ssl_context(cluster, user)
        connection = http.client.HTTPSConnection(url.netloc, timeout=SECONDS, context=context)
    try:
        yield connection
    finally:
        connection.close()


def _build_ssl_context(cluster: JsonObject, user: JsonObject) -> ssl.SSLContext:
    """Build the TLS context from the cluster's certificate authority and the user's client certificate."""
    certificate_authority = _read_kubeconfig_field(cluster, "certificate-authority")
    context = ssl.create_default_context(cadata=certificate_authority.decode() or None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate = _read_kubeconfig_field(user, "client-certificate")
    key = _read_kubeconfig_field(user, "client-key")
    if certificate and key:
        with _open_pipe_path(certificate) as cert_file, _open_pipe_path(key) as key_file:
            context.load_cert_chain(cert_file, key_file)
    return context


@contextmanager
def _open_pipe_path(data: bytes) -> Iterator[str]:
    """Yield the path of a pipe from which the data can be read once, so that keys are never written to disk."""
    reader, writer = os.pipe()
    try:
        with open(writer, "wb") as file:  # a certificate is smaller than a pipe holds
            file.write(data)
        yield f"/dev/fd/{reader}"
    finally:
        os.close(reader)


def _read_kubeconfig_field(entry: Kubeconfig, name: str) -> bytes:
    """Return a kubeconfig field's data from ``name-data`` or from the file in ``name``, or b"" without both."""
    if entry.get(f"{name}-data"):
        return base64.b64decode(entry[f"{name}-data"])
    if not entry.get(name):
        return b""
    with open(os.path.join(entry["folder"], entry[name]), "rb") as file:
        return file.read(1 << 16)


def _build_authorization(user: Kubeconfig) -> dict[str, str]:
    """Build the Authorization header from the user's token or password, or return {} if there is neither."""
    token = user.get("token") or ""
    if not token and user.get("tokenFile"):
        with open(os.path.join(user["folder"], user["tokenFile"]), encoding="utf-8") as file:
            token = file.read(1 << 16).strip()
    if token:
        return {"Authorization": f"Bearer {token}"}
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return {}
