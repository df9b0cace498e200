"""Check what gets a pseudonym, and that the order and meaning of texts stay the same."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_anonymize import restore_originals

import kschedctl
from kschedctl.api import resource_names
from kschedctl.cluster import Cluster
from kschedctl.errors import ConfigurationError
from kschedctl.sources.anonymize.cluster import anonymize_cluster
from kschedctl.sources.anonymize.expressions import Expressions, computes_with_strings
from kschedctl.sources.anonymize.kept_texts import is_well_known_key
from kschedctl.sources.anonymize.pseudonyms import Numbers, Pseudonyms
from kschedctl.sources.anonymize.rewriter import Rewriter

Json = dict[str, Any]
SECRET = "acme"
"""The mark in every user-written text."""


def build_pseudonyms(keys: list[str]) -> tuple[Pseudonyms, dict[str, str]]:
    pseudonyms = Pseudonyms({})
    for key in keys:
        pseudonyms.replace_key(key)
    return pseudonyms, pseudonyms.assign_pseudonyms()


@pytest.mark.parametrize(
    ("key", "stays"),
    [
        ("cpu", True),
        ("hugepages-2Mi", True),
        ("pod-template-hash", True),
        ("kubernetes.io/hostname", True),
        ("topology.kubernetes.io/zone", True),
        ("node.kubernetes.io/not-ready", True),
        ("nvidia.com/gpu", True),
        ("cloud.google.com/gke-nodepool", True),
        ("node-role.kubernetes.io/control-plane", True),
        ("node-role.kubernetes.io/acme", False),
        ("node-restriction.kubernetes.io/acme", False),
        ("app", False),
        ("team", False),
        ("acme.com/gpu", False),
        ("kubernetes.io.acme.com/zone", False),
        ("notnvidia.com/gpu", False),
    ],
)
def test_well_known_keys_stay(key: str, stays: bool) -> None:
    pseudonyms, originals = build_pseudonyms([key])
    made = pseudonyms.replace_key(key)
    assert (made == key, is_well_known_key(key)) == (stays, stays)
    assert restore_originals(made, originals) == key
    assert stays or resource_names.is_qualified_name(made)


NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9._]{0,6}[a-z0-9])?", fullmatch=True)
DOMAINS = st.from_regex(r"[a-z0-9]{1,4}(\.[a-z0-9]{1,4}){0,2}", fullmatch=True)
OWN = st.builds(lambda domain, name: f"{domain}/{name}" if domain else name, st.just("") | DOMAINS, NAMES)
KNOWN = st.sampled_from(
    [
        *("cpu", "memory", "pods", "ephemeral-storage", "hugepages-1Gi", "hugepages-2Mi", "nvidia.com/gpu"),
        *("amd.com/gpu", "kubernetes.io/os", "topology.kubernetes.io/zone", "node.kubernetes.io/not-ready"),
        *("karpenter.sh/nodepool", "job-name"),
    ]
)


@given(st.lists(OWN | KNOWN, min_size=1, max_size=12))
def test_keys_keep_their_order_among_those_that_stay(keys: list[str]) -> None:
    """The order of resources decides which device is allocated to which request."""
    pseudonyms, originals = build_pseudonyms(keys)
    made = {key: pseudonyms.replace_key(key) for key in keys}
    assert sorted(made, key=lambda key: key) == sorted(made, key=made.__getitem__)
    assert len(set(made.values())) == len(made)
    for key in keys:
        assert resource_names.is_qualified_name(made[key]) == resource_names.is_qualified_name(key)
        assert restore_originals(made[key], originals) == key


@pytest.mark.parametrize("key", ["-bad", "two/sla/shes", "Upper.com/x", "/name", "domain/", "x" * 64, "bad key"])
def test_invalid_key_stays_invalid(key: str) -> None:
    """Selectors with such a key are rejected, and no extended resource has such a name."""
    pseudonyms, _ = build_pseudonyms([key])
    assert not resource_names.is_qualified_name(pseudonyms.replace_key(key))


def build_rewriter(cluster: Cluster, pseudonyms: Pseudonyms) -> Rewriter:
    return Rewriter({}, pseudonyms, Numbers.from_cluster(cluster), Expressions.from_cluster(cluster))


RESOURCES = (
    *(
        "cpu",
        "memory",
        "pods",
        "ephemeral-storage",
        "storage",
        "hugepages-2Mi",
        "nvidia.com/gpu",
        "acme.com/gpu",
        "gpu",
    ),
    *("Acme.com/gpu", "bad_x/gpu", "requests.acme.com/gpu", "requests.cpu", "attachable-volumes-acme"),
    *("kubernetes.io/acme", "x.kubernetes.io/acme", "mykubernetes.io/gpu", "deviceclass.resource.kubernetes.io/acme"),
)


@pytest.mark.parametrize("name", RESOURCES)
def test_resources_keep_their_category(name: str) -> None:
    pseudonyms = Pseudonyms({})
    made = build_rewriter(Cluster(), pseudonyms)
    made.replace_resource(name)
    pseudonyms.assign_pseudonyms()
    found = made.replace_resource(name)
    rules = (
        resource_names.is_native,
        resource_names.is_extended,
        resource_names.is_scalar,
        resource_names.is_counted,
        resource_names.is_pod_level,
        resource_names.is_dra_extended,
    )
    assert [rule(found) for rule in rules] == [rule(name) for rule in rules]
    kept_class = ("x.kubernetes.io/acme", "kubernetes.io/acme", "mykubernetes.io/gpu")
    assert SECRET not in found or name in kept_class


def encode_document(document: Any) -> str:
    return msgspec.json.encode(document).decode()


def build_marked_objects() -> list[Json]:
    """Build a node, pods and more, in which every user-written text is marked."""
    labels = {"acme.com/pool": "acme-a", "acme-team": "acme-b", "kubernetes.io/hostname": "acme-1"}
    taint = {"key": "acme.com/dedicated", "value": "acme-c", "effect": "NoSchedule"}
    conditions = [
        {"type": "Ready", "status": "True", "message": "acme"},
        {"type": "AcmeProblem", "status": "False", "reason": "NoAcme"},
    ]
    terms = [
        {"key": "acme.com/pool", "operator": "In", "values": ["acme-a"]},
        {"key": "acme-team", "operator": "NotIn", "values": ["acme-x"]},
        {"key": "acme-team", "operator": "Exists"},
        {"key": "acme-absent", "operator": "DoesNotExist"},
    ]
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": terms}]}
        }
    }
    selector = {"matchLabels": {"acme-app": "acme"}}
    spread = {"maxSkew": 1, "topologyKey": "acme-rack", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    spec = {
        "containers": [
            {"name": "acme", "image": "acme/acme:1", "resources": {"requests": {"acme.com/gpu": "1", "cpu": "1"}}}
        ],
        "affinity": affinity,
        "tolerations": [{"key": "acme.com/dedicated", "operator": "Exists"}],
        "topologySpreadConstraints": [{**spread, "matchLabelKeys": ["acme-app"]}],
        "schedulerName": "acme-scheduler",
    }
    owner = {"apiVersion": "acme.com/v1", "kind": "AcmeDatabase", "name": "acme", "uid": "acme", "controller": True}
    metadata = {"name": "acme-p", "namespace": "acme", "labels": {"acme-app": "acme"}, "ownerReferences": [owner]}
    node = {
        "kind": "Node",
        "metadata": {"name": "acme-1", "labels": {**labels, "acme-rack": "acme-r"}},
        "spec": {"taints": [taint]},
        "status": {"allocatable": {"cpu": "4", "pods": "9", "acme.com/gpu": "2"}, "conditions": conditions},
    }
    gated = {
        "metadata": {**metadata, "name": "acme-gated"},
        "spec": {**spec, "schedulingGates": [{"name": "acme.com/gate"}]},
    }
    group = {
        "kind": "PodGroup",
        "metadata": {"name": "acme", "namespace": "acme"},
        "spec": {
            "podGroupTemplateRef": {"workload": {"workloadName": "acme", "podGroupTemplateName": "acme"}},
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "schedulingConstraints": {"topology": [{"key": "acme"}]},
            "resourceClaims": [{"name": "acme", "resourceClaimTemplateName": "acme"}],
            "priorityClassName": "acme",
        },
        "status": {"conditions": [{"message": "acme"}]},
    }
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "acme",
            "namespace": "acme",
            "annotations": {
                "volume.kubernetes.io/selected-node": "acme-1",
                "pv.kubernetes.io/bind-completed": "yes",
                "acme.com/owner": "acme",
            },
        },
    }
    csi_node = {
        "kind": "CSINode",
        "metadata": {"name": "acme-1"},
        "spec": {"drivers": [{"name": "csi.acme.com", "nodeID": "acme", "topologyKeys": ["topology.acme.com/zone"]}]},
    }
    return [node, {"kind": "Pod", "metadata": metadata, "spec": spec}, {"kind": "Pod", **gated}, group, claim, csi_node]


CONFIGURATION: Json = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"resourceName": "acme"},
    "profiles": [
        {
            "schedulerName": "acme-scheduler",
            "pluginConfig": [
                {"name": "AnotherPlugin", "args": {"anything": "acme"}},
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "ignoredResources": ["acme.com/fpga"],
                        "ignoredResourceGroups": ["acme.org"],
                        "scoringStrategy": {
                            "type": "MostAllocated",
                            "resources": [{"name": "acme.com/gpu", "weight": 2}],
                        },
                    },
                },
                {"name": "NodeResourcesBalancedAllocation", "args": {"resources": [{"name": "acme.com/gpu"}]}},
                {
                    "name": "PodTopologySpread",
                    "args": {
                        "defaultingType": "List",
                        "defaultConstraints": [
                            {"maxSkew": 1, "topologyKey": "acme-rack", "whenUnsatisfiable": "ScheduleAnyway"}
                        ],
                    },
                },
            ],
        }
    ],
    "extenders": [
        {
            "urlPrefix": "https://me:acme@acme.com/path?acme",
            "filterVerb": "acme",
            "managedResources": [{"name": "acme.com/fpga", "ignoredByScheduler": True}],
            "tlsConfig": {"serverName": "acme.com"},
        }
    ],
}


def test_no_user_text_is_left_and_answers_are_the_same() -> None:
    """This includes keys, resources, gates, schedulers, kinds, groups, conditions, annotations and a configuration."""
    cluster = Cluster.from_objects(build_marked_objects(), config=CONFIGURATION)
    made, originals, _ = anonymize_cluster(cluster)
    for field in ("pods", "nodes", "pod_groups", "persistent_volume_claims", "csi_nodes"):
        assert SECRET not in encode_document(list(getattr(made, field))).lower(), field
    assert SECRET not in json.dumps(made.configuration)
    for row, pod in enumerate(cluster.pods):
        found = restore_originals(kschedctl.explain(made, made.pods[row].key).to_dict(), originals)
        expected = kschedctl.explain(cluster, pod.key).to_dict()
        for document in (found, expected):
            document["notReplayed"] = [text.partition(" https:")[0] for text in document["notReplayed"]]
        assert found == expected
        assert expected["verdict"] in ("Schedulable", "Gated")


def test_mapping_restores_the_originals() -> None:
    """It restores labels, taints, selectors, tolerations and resources, except what was left out."""
    cluster = Cluster.from_objects(build_marked_objects())
    made, originals, _ = anonymize_cluster(cluster)
    for before, after in zip(cluster.nodes, made.nodes, strict=True):
        found = restore_originals(json.loads(encode_document(after)), originals)
        conditions = [{"type": "Ready", "status": "True"}]
        expected = json.loads(encode_document(before))
        assert found == {**expected, "status": {**expected["status"], "conditions": conditions}}
    for old, new in zip(cluster.pods, made.pods, strict=True):
        assert {"status": {}, **restore_originals(json.loads(encode_document(new)), originals)} == {
            "status": {},
            **json.loads(encode_document(old)),
        }


def test_invalid_configuration_is_rejected() -> None:
    """Names in it could not be found."""
    with pytest.raises(ConfigurationError):
        anonymize_cluster(Cluster(configuration={**CONFIGURATION, "profiles": 5}))


# -- CEL ----------------------------------------------------------------------------------------------------------


def build_device(**attributes: str) -> Json:
    return {"name": "d0", "attributes": {f"gpu.acme.com/{name}": {"string": text} for name, text in attributes.items()}}


def select_expressions(expressions: list[str], **attributes: str) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """Return the expressions under pseudonyms, the values of the attributes, and the mapping."""
    slices = {"driver": "gpu.acme.com", "pool": {"name": "p"}, "nodeName": "n", "devices": [build_device(**attributes)]}
    selectors = [{"cel": {"expression": text}} for text in expressions]
    objects = [
        {"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": slices},
        {"kind": "DeviceClass", "metadata": {"name": "c"}, "spec": {"selectors": selectors}},
    ]
    made, originals, _ = anonymize_cluster(Cluster.from_objects(objects))
    values = made.resource_slices[0].spec.devices[0].attributes
    found = [s.cel.expression for s in made.device_classes[0].spec.selectors if s.cel]
    return found, {name.rpartition("/")[2]: str(value.string) for name, value in values.items()}, originals


D = "device.attributes['gpu.acme.com']"


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        ('device.driver == "gpu.acme.com"', []),
        (f"{D}.model == 'A100'", []),
        (f'{D}.model in ["A100", "B"]', []),
        (f"{D}['model'] != 'A100'", ["'model'"]),
        (f"'model' in {D} && 'other.acme.com' in device.attributes", ["'model'"]),
        (f"'A100' in {D}.model", []),
        (f"cel.bind(a, {D}, a['model'] == 'A100')", ["'model'"]),
        (f"{D}.model == 'absent'  // only those of acme", []),
        ("device.attributes['other.acme.com'].model == 'A100'", []),
        ("device.attributes['resource.kubernetes.io'].pcieRoot == 'a'", ["'resource.kubernetes.io'"]),
        ('device.capacity["gpu.acme.com"].memory.isGreaterThan(quantity("40Gi"))', ['"40Gi"']),
        (f"{D}.version.isLessThan(semver('1.0.0'))", ["'1.0.0'"]),
        (f'{D}.model == """A100"""', []),
    ],
)
def test_expressions_are_compared_with_pseudonyms(expression: str, kept: list[str]) -> None:
    (made,), values, originals = select_expressions([expression], model="A100", other="B")
    assert restore_originals(made, originals) == expression.partition("  //")[0] + "  " * ("//" in expression)
    assert SECRET not in made
    for text in ("A100", "absent", '"B"', *(kept and [])):
        assert text not in made
    assert all(text in made for text in kept)
    assert values["model"] != "A100"


@pytest.mark.parametrize(
    "expression",
    [
        f"{D}.model.startsWith('A1')",
        f"{D}.model.matches('^A.*')",
        f"matches({D}.model, '^A.*')",
        f"{D}.model + 'x' == 'A100x'",
        f"size({D}.model) == 4",
        f"{D}.model > 'A'",
        f"'A' < {D}.model",
        f"{D}.model == 'A\\x3100'",
        f"{D}.model == r'A100'",
        f"['model'].exists(k, k in {D})",
        f"cel.bind(a, {D}, 'model' in a && a.model == 'A100')",
        f"['model'].exists(k, {D}[k] == 'A100')",
    ],
)
def test_texts_that_expressions_compute_with_stay(expression: str) -> None:
    (made, plain, other), values, originals = select_expressions(
        [expression, f"{D}.model == 'A100' || {D}.kind == 'k'", f"{D}.other == 'B'"], model="A100", kind="k", other="B"
    )
    assert computes_with_strings(expression)
    assert made == expression.replace("gpu.acme.com", get_pseudonym("gpu.acme.com", originals))
    assert (values["model"], values["kind"]) == ("A100", "k")
    assert "'A100'" in plain
    assert "'B'" not in other
    assert values["other"] != "B"


def get_pseudonym(text: str, originals: dict[str, str]) -> str:
    return next(made for made, original in originals.items() if original == text)


def test_drivers_that_expressions_compute_with_are_reported() -> None:
    objects = [
        {"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": {"driver": "gpu.acme.com", "pool": {"name": "p"}}},
        {
            "kind": "DeviceClass",
            "metadata": {"name": "c"},
            "spec": {"selectors": [{"cel": {"expression": "device.driver.endsWith('acme.com')"}}]},
        },
    ]
    made, _, stays = anonymize_cluster(Cluster.from_objects(objects))
    assert made.resource_slices[0].spec.driver == "gpu.acme.com"
    assert "names of device drivers, because a CEL expression computes with them" in stays
    assert "strings in 1 CEL expression that computes with them" in stays
