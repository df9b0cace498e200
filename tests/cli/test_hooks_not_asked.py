"""Check that answers say if they depend on admission webhooks or policies, which are not called."""

from __future__ import annotations

from typing import Any

import pytest
from command_line import Json, Run, Write, build_node, build_pod

EVERY = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
PODS = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
DEPLOYMENTS = {**PODS, "apiGroups": ["apps"], "resources": ["deployments"]}
NOT = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["shop"]}]}
WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": build_pod("web")["spec"]},
    },
}
SHOP = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}


def build_hook(kind: str, spec: Json) -> Json:
    body = {"webhooks": [{"name": "h", **spec}]} if kind.endswith("Configuration") else {"spec": spec}
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "h"}, **body}


def build_webhook(rule: Json, kind: str = "ValidatingWebhookConfiguration", **more: Any) -> list[Json]:
    return [build_hook(kind, {"rules": [rule], **more})]


def build_policy(rule: Json, *actions: str, **constraints: Any) -> list[Json]:
    own = {"matchConstraints": {"resourceRules": [rule], **constraints}}
    bound = {"policyName": "h", "validationActions": list(actions)}
    return [build_hook("ValidatingAdmissionPolicy", own), build_hook("ValidatingAdmissionPolicyBinding", bound)]


@pytest.mark.parametrize(
    ("hooks", "said"),
    [
        (build_webhook(EVERY), "admission webhooks are not called: h"),
        (build_webhook(PODS, "MutatingWebhookConfiguration"), "admission webhooks are not called: h"),
        (build_webhook(DEPLOYMENTS), "admission webhooks are not called: h"),
        (build_webhook(PODS, objectSelector={"matchLabels": {"app": "web"}}), "admission webhooks are not called: h"),
        (build_webhook(PODS, objectSelector={"matchLabels": {"app": "other"}}), ""),
        (build_webhook(PODS, namespaceSelector=NOT), ""),
        (build_webhook({**PODS, "operations": ["UPDATE"]}), ""),
        (build_webhook({**PODS, "resources": ["pods/status"]}), ""),
        (build_webhook({**PODS, "scope": "Cluster"}), ""),
        (build_policy(PODS, "Deny"), "admission policies are not called: h"),
        (build_policy(PODS, "Warn", "Audit"), ""),
        (
            build_policy(EVERY, "Deny", excludeResourceRules=[PODS, DEPLOYMENTS, {**DEPLOYMENTS, "resources": ["*"]}]),
            "",
        ),
        (build_policy(PODS, "Deny")[:1], ""),
    ],
    ids=[
        *("everything", "mutating", "of deployments", "by label", "other label", "other namespace", "updates"),
        *("subresource", "cluster scope", "policy", "warns alone", "excluded", "not bound"),
    ],
)
def test_matching_hooks_make_the_answer_uncertain(run: Run, write: Write, hooks: list[Json], said: str) -> None:
    cluster, manifest = write(build_node("n1"), SHOP, *hooks), write(WEB, name="web.json")
    for command in ("explain", "simulate"):
        found = run(command, "-f", manifest, "-f", cluster)
        assert found.code == (5 if said else 0)
        assert said in " ".join(found.out.split())
        assert bool(said) == ("are not called" in found.out)


def test_recreated_pods_are_assumed_to_pass_the_hooks(run: Run, write: Write) -> None:
    """A drain recreates pods unchanged."""
    running = build_pod("web-5d-x", namespace="shop", uid="u", nodeName="n1")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d", "controller": True, "uid": "r"}
    running["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [owner]}
    cluster = write(
        build_node("n1"), build_node("n2"), SHOP, running | {"status": {"phase": "Running"}}, *build_webhook(PODS)
    )
    assert run("drain", "n1", "-f", cluster).code == 0


def test_hooks_of_a_new_pod_that_fits_nowhere_are_named(run: Run, write: Write) -> None:
    """The verdict is certain all the same. For an existing pod, no hook is named."""
    hooks = [*build_webhook(PODS, "MutatingWebhookConfiguration"), *build_policy(PODS, "Deny")]
    large = build_pod("large", namespace="shop")
    large["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "99"}}
    cluster, manifest = write(build_node("n1"), SHOP, *hooks), write(large, name="large.json")
    found = run("explain", "shop/large", "-f", manifest, "-f", cluster)
    assert found.code == 1
    words = " ".join(found.out.split())
    assert "admission webhooks and admission policies are not called: h" in words
    large["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    assert "are not called" not in run("explain", "shop/large", "-f", write(large, build_node("n1"), SHOP, *hooks)).out
