"""Webhooks and policies that the API server would ask about an object that is created; nobody asks them here.

Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/{generic,predicates} and
pkg/admission/plugin/policy/matching (v1.36). Expressions that narrow it further are not evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kschedctl.api.admission_hooks import HookRule, MatchResources, WebhookConfiguration
from kschedctl.api.labels import selector_from_api
from kschedctl.api.objects import LabelSelector, Namespace
from kschedctl.cluster import FIELDS, Cluster

WEBHOOKS = {True: "MutatingWebhookConfiguration", False: "ValidatingWebhookConfiguration"}
POLICIES = {True: "MutatingAdmissionPolicy", False: "ValidatingAdmissionPolicy"}
"""Whether they change objects -> their kind."""
CREATE, ANY, CLUSTER, DENY = "CREATE", "*", "Cluster", "Deny"
NAME_LABEL = "kubernetes.io/metadata.name"


class CreatedObject(NamedTuple):
    """An object of a namespace, of which a controller or a user asks the API server; ``labels``: None if not known."""

    group: str
    version: str
    resource: str
    namespace: str
    labels: Mapping[str, str] | None


def webhooks_asked(cluster: Cluster, objects: Iterable[CreatedObject], *, mutating: bool) -> Iterator[str]:
    """The names of the configurations with a webhook that would be called for one of the objects."""
    created = list(objects)
    configurations: Sequence[WebhookConfiguration] = getattr(cluster, FIELDS[WEBHOOKS[mutating]])
    for configuration in configurations:
        criteria = (
            MatchResources(w.namespace_selector, w.object_selector, w.rules) for w in configuration.webhooks if w.rules
        )
        if any(_matches(cluster, one, obj) for one in criteria for obj in created):
            yield configuration.metadata.name


def policies_asked(cluster: Cluster, objects: Iterable[CreatedObject], *, mutating: bool) -> Iterator[str]:
    """The names of the policies that are in force for one of the objects, and change or refuse it."""
    created, kind = list(objects), POLICIES[mutating]
    for policy in getattr(cluster, FIELDS[kind]):
        bound = [
            binding.spec.match_resources
            for binding in getattr(cluster, FIELDS[f"{kind}Binding"])
            if binding.spec.policy_name == policy.metadata.name
            and (mutating or DENY in binding.spec.validation_actions)
        ]
        concerned = [obj for obj in created if _matches(cluster, policy.spec.match_constraints, obj)]
        if any(_matches(cluster, one, obj) for one in bound for obj in concerned):
            yield policy.metadata.name


def _matches(cluster: Cluster, criteria: MatchResources, obj: CreatedObject) -> bool:
    """Whether what is asked about is, or may be, such an object; without rules it is any."""
    rules = criteria.resource_rules
    return (
        (not rules or any(_is_about(rule, obj) for rule in rules))
        and not any(_is_about(rule, obj) for rule in criteria.exclude_resource_rules if not rule.resource_names)
        and _selects(criteria.object_selector, obj.labels)
        and _selects(criteria.namespace_selector, _namespace_labels(cluster, obj.namespace))
    )


def _is_about(rule: HookRule, obj: CreatedObject) -> bool:
    """Names are not compared: those of most pods are made by the API server."""
    return (
        rule.scope != CLUSTER
        and _has(rule.operations, CREATE)
        and _has(rule.api_groups, obj.group)
        and _has(rule.api_versions, obj.version)
        and any(_has((resource.removesuffix("/*"),), obj.resource) for resource in rule.resources)
    )


def _has(items: Sequence[str], wanted: str) -> bool:
    return ANY in items or wanted in items


def _selects(selector: LabelSelector, labels: Mapping[str, str] | None) -> bool:
    return labels is None or selector_from_api(selector).matches(labels)


def _namespace_labels(cluster: Cluster, name: str) -> Mapping[str, str] | None:
    """None where it may have others than are known."""
    stored: Namespace | None = next(
        (candidate for candidate in cluster.namespaces if candidate.metadata.name == name), None
    )
    if stored is None and cluster.gap("Namespace"):
        return None
    return {NAME_LABEL: name, **(stored.metadata.labels if stored else {})}
