"""Admission that cannot be replayed: webhooks, policies, and plugins that read objects which are not known.

Expressions that narrow the match of a webhook or policy further are not evaluated. Upstream:
staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/{generic,predicates} and pkg/admission/plugin/policy/matching
(v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kschedctl.api.admission_hooks import HookRule, MatchResources, WebhookConfiguration
from kschedctl.api.json_values import JsonObject
from kschedctl.api.labels import selector_from_api
from kschedctl.api.objects import LabelSelector, Namespace
from kschedctl.api.priority import find_priority_class
from kschedctl.cluster import FIELDS, Cluster

WEBHOOK_KINDS = {True: "MutatingWebhookConfiguration", False: "ValidatingWebhookConfiguration"}
POLICY_KINDS = {True: "MutatingAdmissionPolicy", False: "ValidatingAdmissionPolicy"}
"""The kind of policy, by whether it changes objects."""
CREATE, ANY, CLUSTER, DENY = "CREATE", "*", "Cluster", "Deny"
NAME_LABEL = "kubernetes.io/metadata.name"


class CreatedObject(NamedTuple):
    """An object of a namespace that a controller or a user creates."""

    group: str
    version: str
    resource: str
    namespace: str
    labels: Mapping[str, str] | None
    """The labels, or None if they are unknown."""


def iter_matching_webhooks(cluster: Cluster, objects: Iterable[CreatedObject], *, mutating: bool) -> Iterator[str]:
    """Yield the name of each webhook configuration that may call a webhook for one of the objects.

    With ``mutating``, only mutating webhooks are considered, and otherwise only validating ones.
    """
    created = list(objects)
    configurations: Sequence[WebhookConfiguration] = getattr(cluster, FIELDS[WEBHOOK_KINDS[mutating]])
    for configuration in configurations:
        all_criteria = [
            MatchResources(webhook.namespace_selector, webhook.object_selector, webhook.rules)
            for webhook in configuration.webhooks
            if webhook.rules
        ]
        if any(_may_match_object(cluster, criteria, obj) for criteria in all_criteria for obj in created):
            yield configuration.metadata.name


def iter_matching_policies(cluster: Cluster, objects: Iterable[CreatedObject], *, mutating: bool) -> Iterator[str]:
    """Yield the name of each bound policy that may change or deny one of the objects.

    With ``mutating``, only mutating policies are considered, and otherwise only validating ones.
    """
    created = list(objects)
    kind = POLICY_KINDS[mutating]
    for policy in getattr(cluster, FIELDS[kind]):
        # A binding of a validating policy has an effect only if it denies objects
        binding_criteria = [
            binding.spec.match_resources
            for binding in getattr(cluster, FIELDS[f"{kind}Binding"])
            if binding.spec.policy_name == policy.metadata.name
            and (mutating or DENY in binding.spec.validation_actions)
        ]
        matching = [obj for obj in created if _may_match_object(cluster, policy.spec.match_constraints, obj)]
        if any(_may_match_object(cluster, criteria, obj) for criteria in binding_criteria for obj in matching):
            yield policy.metadata.name


def _may_match_object(cluster: Cluster, criteria: MatchResources, obj: CreatedObject) -> bool:
    """Return whether the criteria match the object, or may match it because its labels are unknown.

    Criteria without rules match objects of any kind.
    """
    rules = criteria.resource_rules
    if rules and not any(_does_rule_match_creation(rule, obj) for rule in rules):
        return False
    # A rule with resource names is ignored: it may name other objects, since the object's name is often generated.
    rules_excluding_all_names = [rule for rule in criteria.exclude_resource_rules if not rule.resource_names]
    if any(_does_rule_match_creation(rule, obj) for rule in rules_excluding_all_names):
        return False
    return _may_selector_match(criteria.object_selector, obj.labels) and _may_selector_match(
        criteria.namespace_selector, _find_namespace_labels(cluster, obj.namespace)
    )


def _does_rule_match_creation(rule: HookRule, obj: CreatedObject) -> bool:
    """Return whether a rule matches the creation of the object.

    Names are not compared, since most are generated.
    """
    return (
        rule.scope != CLUSTER
        and _lists_item_or_wildcard(rule.operations, CREATE)
        and _lists_item_or_wildcard(rule.api_groups, obj.group)
        and _lists_item_or_wildcard(rule.api_versions, obj.version)
        and any(_lists_item_or_wildcard((resource.removesuffix("/*"),), obj.resource) for resource in rule.resources)
    )


def _lists_item_or_wildcard(items: Sequence[str], wanted: str) -> bool:
    """Return whether a list contains an item, or the wildcard that stands for all items."""
    return ANY in items or wanted in items


def _may_selector_match(selector: LabelSelector, labels: Mapping[str, str] | None) -> bool:
    """Return whether the selector matches the labels, or the labels are unknown."""
    return labels is None or selector_from_api(selector).matches(labels)


def _find_namespace_labels(cluster: Cluster, name: str) -> Mapping[str, str] | None:
    """Return the labels of a namespace, or None if namespaces were not fully read.

    A namespace that does not exist has only the label with its name.
    """
    namespace = _find_namespace(cluster, name)
    if namespace is not None:
        return {NAME_LABEL: name, **namespace.metadata.labels}
    return None if cluster.find_gap("Namespace") else {NAME_LABEL: name}


BUILT_IN_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
"""The namespaces that the API server creates."""
NAMESPACE_LIFECYCLE, SERVICE_ACCOUNT_PLUGIN, DEFAULT_ACCOUNT = "NamespaceLifecycle", "ServiceAccount", "default"


def iter_undecidable_plugins(cluster: Cluster, namespace: str) -> Iterator[str]:
    """Yield the plugins that cannot decide because the namespace or its service accounts were not read."""
    namespace_object = _find_namespace(cluster, namespace)
    if namespace_object is None:
        yield NAMESPACE_LIFECYCLE  # a missing namespace is reported when manifests are read
    accounts = cluster.list_in_namespace("service_accounts", namespace)
    are_accounts_unread = bool(cluster.find_gap("ServiceAccount", namespace)) or not cluster.service_accounts
    is_namespace_unknown = not accounts and namespace_object is None
    if are_accounts_unread or is_namespace_unknown:
        yield SERVICE_ACCOUNT_PLUGIN


def iter_undecidable_plugins_for_pod(cluster: Cluster, namespace: str, spec: JsonObject) -> Iterator[str]:
    """Yield the plugins that cannot decide because the pod names an object that was not read.

    ServiceAccount is yielded only if the pod uses the default account of a namespace that was not read from a cluster.
    """
    priority_class = str(spec.get("priorityClassName") or "")
    if cluster.find_gap("PriorityClass") and find_priority_class(priority_class, cluster.priority_classes) is None:
        yield "Priority"
    runtime_class = spec.get("runtimeClassName")
    known_runtime_classes = {known_class.metadata.name for known_class in cluster.runtime_classes}
    if runtime_class and cluster.find_gap("RuntimeClass") and runtime_class not in known_runtime_classes:
        yield "RuntimeClass"
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or DEFAULT_ACCOUNT
    namespace_object = _find_namespace(cluster, namespace)
    if account == DEFAULT_ACCOUNT and not (namespace_object and namespace_object.metadata.uid):
        yield SERVICE_ACCOUNT_PLUGIN  # a controller creates the account in each new namespace


def is_missing_namespace(cluster: Cluster, namespace: str) -> bool:
    """Return whether the namespace certainly does not exist. Returns False if namespaces were not read."""
    were_read = bool(cluster.namespaces) and cluster.find_gap("Namespace") is None
    return were_read and namespace not in BUILT_IN_NAMESPACES and _find_namespace(cluster, namespace) is None


def _find_namespace(cluster: Cluster, name: str) -> Namespace | None:
    """Return the namespace of this name, or None."""
    for namespace in cluster.namespaces:
        if namespace.metadata.name == name:
            return namespace
    return None
