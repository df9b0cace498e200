"""Webhooks and admission policies, limited to the fields that decide which objects they see.

Upstream: staging/src/k8s.io/api/admissionregistration/v1/types.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping

from kschedctl.api.api_versions import ApiVersion
from kschedctl.api.objects import LabelSelector, ObjectMeta, Struct


class HookRule(Struct, frozen=True):
    """A RuleWithOperations or NamedRuleWithOperations."""

    operations: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    scope: str = "*"


class Webhook(Struct, frozen=True):
    name: str = ""
    rules: tuple[HookRule, ...] = ()
    namespace_selector: LabelSelector = LabelSelector()
    object_selector: LabelSelector = LabelSelector()


class WebhookConfiguration(Struct, frozen=True):
    """A MutatingWebhookConfiguration or a ValidatingWebhookConfiguration."""

    metadata: ObjectMeta = ObjectMeta()
    webhooks: tuple[Webhook, ...] = ()


class MatchResources(Struct, frozen=True):
    namespace_selector: LabelSelector = LabelSelector()
    object_selector: LabelSelector = LabelSelector()
    resource_rules: tuple[HookRule, ...] = ()
    exclude_resource_rules: tuple[HookRule, ...] = ()


class AdmissionPolicySpec(Struct, frozen=True):
    match_constraints: MatchResources = MatchResources()


class AdmissionPolicy(Struct, frozen=True):
    """A MutatingAdmissionPolicy or ValidatingAdmissionPolicy. The CEL expressions are not read."""

    metadata: ObjectMeta = ObjectMeta()
    spec: AdmissionPolicySpec = AdmissionPolicySpec()


class PolicyBindingSpec(Struct, frozen=True):
    """The policy that a binding puts into force, and the objects that it applies to."""

    policy_name: str = ""
    match_resources: MatchResources = MatchResources()
    validation_actions: tuple[str, ...] = ()
    """Deny, Warn or Audit. Only ValidatingAdmissionPolicies have actions."""


class PolicyBinding(Struct, frozen=True):
    """A binding that puts a policy into force."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PolicyBindingSpec = PolicyBindingSpec()


_NAME = "admissionregistration.k8s.io/v1"
_WEBHOOKS = (ApiVersion(f"{_NAME}beta1", 9, 16, 22, _NAME), _NAME)
_VALIDATING = (
    ApiVersion(f"{_NAME}alpha1", 26, 29, 32, gate="ValidatingAdmissionPolicy"),
    ApiVersion(f"{_NAME}beta1", 28, 31, 34, gate="ValidatingAdmissionPolicy"),
    _NAME,
)
_MUTATING = (
    ApiVersion(f"{_NAME}alpha1", 32, 35, 38, gate="MutatingAdmissionPolicy"),
    ApiVersion(f"{_NAME}beta1", 34, deprecated=37, removed=40, replacement=_NAME, gate="MutatingAdmissionPolicy"),
    ApiVersion(_NAME, 36, gate="MutatingAdmissionPolicy"),
)
KINDS: Mapping[str, tuple[type[Struct], tuple[str | ApiVersion, ...]]] = {
    "MutatingWebhookConfiguration": (WebhookConfiguration, _WEBHOOKS),
    "ValidatingWebhookConfiguration": (WebhookConfiguration, _WEBHOOKS),
    "MutatingAdmissionPolicy": (AdmissionPolicy, _MUTATING),
    "MutatingAdmissionPolicyBinding": (PolicyBinding, _MUTATING),
    "ValidatingAdmissionPolicy": (AdmissionPolicy, _VALIDATING),
    "ValidatingAdmissionPolicyBinding": (PolicyBinding, _VALIDATING),
}
"""Each kind's struct and API versions, oldest first."""
