"""Which plugins are left out as what they look at is not known: of a cluster maybe not all was read."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Namespace
from kschedctl.api.priority import find_priority_class
from kschedctl.cluster import Cluster

ALWAYS_THERE = ("default", "kube-system", "kube-public", "kube-node-lease")
"""The namespaces that the API server makes itself."""
LIFECYCLE, ACCOUNTS, DEFAULT_ACCOUNT = "NamespaceLifecycle", "ServiceAccount", "default"


def not_known(cluster: Cluster, namespace: str) -> Iterator[str]:
    """The plugins of which it is not known what they look at. Every cluster has namespaces and accounts."""
    namespace_object = _namespace(cluster, namespace)
    if namespace_object is None:
        yield LIFECYCLE  # whoever reads the manifests says where it has to be made first
    accounts = cluster.in_namespace("service_accounts", namespace)
    if cluster.gap("ServiceAccount", namespace) or not cluster.service_accounts or not (accounts or namespace_object):
        yield ACCOUNTS


def not_known_of(cluster: Cluster, namespace: str, spec: JsonObject) -> Iterator[str]:
    """The plugins that refuse what a pod names and does not exist, where it may exist all the same."""
    priority, runtime = str(spec.get("priorityClassName") or ""), spec.get("runtimeClassName")
    if cluster.gap("PriorityClass") and find_priority_class(priority, cluster.priority_classes) is None:
        yield "Priority"
    if runtime and cluster.gap("RuntimeClass") and all(c.metadata.name != runtime for c in cluster.runtime_classes):
        yield "RuntimeClass"
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or DEFAULT_ACCOUNT
    namespace_object = _namespace(cluster, namespace)
    if account == DEFAULT_ACCOUNT and not (namespace_object and namespace_object.metadata.uid):
        yield ACCOUNTS  # a controller makes it in each new namespace


def is_missing(cluster: Cluster, namespace: str) -> bool:
    """Whether there is no such namespace. Every cluster has some: where none is known, they were not read."""
    known = bool(cluster.namespaces) and cluster.gap("Namespace") is None
    return known and namespace not in ALWAYS_THERE and _namespace(cluster, namespace) is None


def _namespace(cluster: Cluster, name: str) -> Namespace | None:
    return next((namespace for namespace in cluster.namespaces if namespace.metadata.name == name), None)
