"""Check the errors for unknown admission plugins and for manifests that are not objects."""

from __future__ import annotations

import pytest

import kschedctl


def test_unknown_plugin_is_an_error() -> None:
    with pytest.raises(kschedctl.KschedctlError, match='kube-apiserver has no admission plugin "Nope"'):
        kschedctl.admit(kschedctl.Cluster.from_objects([]), {"kind": "Pod"}, plugins=["Nope"])


def test_manifest_without_kind_is_an_error() -> None:
    with pytest.raises(kschedctl.KschedctlError, match="kind: required"):
        kschedctl.admit(kschedctl.Cluster.from_objects([]), {})


def test_missing_namespace() -> None:
    found = kschedctl.admit(kschedctl.Cluster.from_objects([]), {"kind": "Pod", "metadata": {"namespace": "shop"}})
    assert (found.code, found.message) == (404, 'namespaces "shop" not found')


def test_quota_without_status_is_not_enforced() -> None:
    """The quota controller has not processed it yet."""
    named = {"name": "default", "namespace": "shop"}
    objects = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named},
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": named, "spec": {"hard": {"pods": "0"}}},
    ]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    assert kschedctl.admit(kschedctl.Cluster.from_objects(objects), {**pod, "spec": spec}).allowed
    objects[2]["status"] = {"hard": {"pods": "0"}, "used": {"pods": "0"}}
    found = kschedctl.admit(kschedctl.Cluster.from_objects(objects), {**pod, "spec": spec})
    assert found.message == (
        'pods "p" is forbidden: exceeded quota: default, requested: pods=1, used: pods=0, limited: pods=0'
    )
