"""Admission plugins that cannot be replayed because the objects that they read are not known."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Namespace
from kschedctl.api.priority import find_priority_class
from kschedctl.cluster import Cluster

BUILT_IN_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
"""The namespaces that the API server creates."""
NAMESPACE_LIFECYCLE, SERVICE_ACCOUNT_PLUGIN, DEFAULT_ACCOUNT = "NamespaceLifecycle", "ServiceAccount", "default"


def find_undecidable_plugins(cluster: Cluster, namespace: str) -> Iterator[str]:
    """Yield the plugins that cannot be decided in a namespace, as it or its service accounts were not read."""
    namespace_object = _find_namespace(cluster, namespace)
    if namespace_object is None:
        yield NAMESPACE_LIFECYCLE  # a missing namespace is reported when manifests are read
    accounts = cluster.in_namespace("service_accounts", namespace)
    if cluster.gap("ServiceAccount", namespace) or not cluster.service_accounts or not (accounts or namespace_object):
        yield SERVICE_ACCOUNT_PLUGIN


def find_undecidable_plugins_for_pod(cluster: Cluster, namespace: str, spec: JsonObject) -> Iterator[str]:
    """Yield the plugins that would deny a pod for naming an object that may exist but was not read."""
    priority, runtime = str(spec.get("priorityClassName") or ""), spec.get("runtimeClassName")
    if cluster.gap("PriorityClass") and find_priority_class(priority, cluster.priority_classes) is None:
        yield "Priority"
    if runtime and cluster.gap("RuntimeClass") and all(c.metadata.name != runtime for c in cluster.runtime_classes):
        yield "RuntimeClass"
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or DEFAULT_ACCOUNT
    namespace_object = _find_namespace(cluster, namespace)
    if account == DEFAULT_ACCOUNT and not (namespace_object and namespace_object.metadata.uid):
        yield SERVICE_ACCOUNT_PLUGIN  # a controller creates the account in each new namespace


def is_missing_namespace(cluster: Cluster, namespace: str) -> bool:
    """Return whether the namespace does not exist. If no namespace is known, they were not read."""
    were_read = bool(cluster.namespaces) and cluster.gap("Namespace") is None
    return were_read and namespace not in BUILT_IN_NAMESPACES and _find_namespace(cluster, namespace) is None


def _find_namespace(cluster: Cluster, name: str) -> Namespace | None:
    """Return the namespace of this name, or None."""
    return next((namespace for namespace in cluster.namespaces if namespace.metadata.name == name), None)
