"""Check the API server's messages about pods (pkg/apis/core/validation/validation.go, v1.36)."""

from __future__ import annotations

import pytest
from written_manifests import (
    AFFINITY_TERMS,
    LABELS,
    PREFERRED_TERMS,
    SELECTOR,
    Json,
    build_container,
    build_pod,
    list_errors,
)

NAME = "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
SYNTAX = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
BAD_KEY = f"name part {SYNTAX} (e.g. 'MyName',  or 'my.name',  or '123-abc', {NAME}"
BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
BAD_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
BAD_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def name_pod(**metadata: object) -> Json:
    return {**build_pod(), "metadata": metadata}


def test_valid_pod_has_no_errors() -> None:
    assert list_errors(build_pod()) == []


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (name_pod(), ["metadata.name: Required value: name or generateName is required"]),
        (name_pod(name="Web"), [f'metadata.name: Invalid value: "Web": {BAD_SUBDOMAIN}']),
        (name_pod(name="a" * 254),
         [f'metadata.name: Invalid value: "{"a" * 254}": must be no more than 253 characters']),
        (name_pod(generateName="web-"), []),
        (name_pod(generateName="we_"), [f'metadata.generateName: Invalid value: "we_": {BAD_SUBDOMAIN}']),
        (name_pod(name="w", namespace="a.b"), ['metadata.namespace: Invalid value: "a.b": must not contain dots']),
        (name_pod(name="w", labels={"a b": "c"}), [f'metadata.labels: Invalid value: "a b": {BAD_KEY}']),
        (name_pod(name="w", labels={"a": "b c"}), [f'metadata.labels: Invalid value: "b c": {BAD_VALUE}']),
        (name_pod(name="w", labels={"/a": ""}),
         ['metadata.labels: Invalid value: "/a": prefix part must be non-empty']),
        (name_pod(name="w", annotations={"A.Example.com/Key": "x y"}), []),
        (name_pod(name="w", annotations={"a b": ""}), [f'metadata.annotations: Invalid value: "a b": {BAD_KEY}']),
        (
            name_pod(name="w", annotations={"a": "x" * 262_144}),
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
        ),
    ],
    ids=[
        "no name", "capital", "long name", "generated", "generated wrongly", "namespace", "label key", "label value",
        "prefix", "annotation with capitals", "annotation", "annotations",
    ],
)  # fmt: skip
def test_metadata(manifest: Json, said: list[str]) -> None:
    assert list_errors(manifest) == said


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (build_pod(containers=[]), ["spec.containers: Required value"]),
        (build_pod(containers=[{"image": "web"}]), ["spec.containers[0].name: Required value"]),
        (build_pod(containers=[{"name": "c"}]), ["spec.containers[0].image: Required value"]),
        (
            build_pod(containers=[{"name": "C", "image": "w"}]),
            [f'spec.containers[0].name: Invalid value: "C": {BAD_LABEL}'],
        ),
        (
            build_pod(containers=[{"name": "c", "image": "w"}] * 2),
            ['spec.containers[1].name: Duplicate value: "c"'],
        ),
        (
            build_pod(initContainers=[{"name": "c", "image": "w"}]),
            ['spec.initContainers[0].name: Duplicate value: "c"'],
        ),
        (
            build_container(image=" web"),
            ['spec.containers[0].image: Invalid value: " web": must not have leading or trailing whitespace'],
        ),
        (
            build_container(restartPolicy="Sometimes"),
            [
                'spec.containers[0].restartPolicy: Unsupported value: "Sometimes": supported values: "Always", '
                '"Never", "OnFailure"'
            ],
        ),
        (
            build_container(volumeMounts=[{"name": "v", "mountPath": "/x"}]),
            ['spec.containers[0].volumeMounts[0].name: Not found: "v"'],
        ),
        (
            build_pod(restartPolicy="never"),
            ['spec.restartPolicy: Unsupported value: "never": supported values: "Always", "OnFailure", "Never"'],
        ),
    ],
    ids=["none", "name", "image", "capital", "twice", "init", "white space", "restart", "mount", "pod's restart"],
)
def test_containers(manifest: Json, said: list[str]) -> None:
    assert list_errors(manifest) == said


def add_ports(*found: Json, **spec: object) -> Json:
    return build_pod(containers=[{"name": "c", "image": "web", "ports": list(found)}], **spec)


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (add_ports({}), ["[0].containerPort: Required value"]),
        (
            add_ports({"containerPort": 80, "hostPort": 99999}),
            ["[0].hostPort: Invalid value: 99999: must be between 1 and 65535, inclusive"],
        ),
        (
            add_ports({"containerPort": -1}),
            ["[0].containerPort: Invalid value: -1: must be between 1 and 65535, inclusive"],
        ),
        (
            add_ports({"containerPort": 80, "protocol": "tcp"}),
            ['[0].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"'],
        ),
        (
            add_ports({"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80, "protocol": "TCP"}),
            ['[1].hostPort: Duplicate value: "TCP//80"'],
        ),
        (
            add_ports({"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80, "protocol": "UDP"}),
            [],
        ),
        (
            add_ports({"containerPort": 80, "hostPort": 81}, hostNetwork=True),
            ["[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true"],
        ),
        (add_ports({"containerPort": 80}, hostNetwork=True), []),
        (add_ports(*[{"containerPort": 80, "name": "web"}] * 2), ['[1].name: Duplicate value: "web"']),
        (
            add_ports({"containerPort": 80, "name": "-"}),
            [
                '[0].name: Invalid value: "-": must contain at least one letter (a-z)',
                '[0].name: Invalid value: "-": must not begin or end with a hyphen',
            ],
        ),
    ],
    ids=[
        "none", "range", "negative", "protocol", "twice", "two protocols", "host network", "host network's default",
        "two names", "name",
    ],
)  # fmt: skip
def test_ports(manifest: Json, said: list[str]) -> None:
    assert list_errors(manifest) == [f"spec.containers[0].ports{each}" for each in said]


def test_host_port_is_unique_among_all_containers() -> None:
    two = [{"name": name, "image": "w", "ports": [{"containerPort": 80, "hostPort": 80}]} for name in "ab"]
    assert list_errors(build_pod(containers=two)) == [
        'spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//80"'
    ]


@pytest.mark.parametrize(
    ("toleration", "said"),
    [
        ({"operator": "Exists"}, []),
        ({"key": "a", "value": "b", "effect": "NoSchedule"}, []),
        ({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -1}, []),
        (
            {"key": "a", "operator": "Equals"},
            ['operator: Unsupported value: "Equals": supported values: "Equal", "Exists"'],
        ),
        (
            {"key": "a", "operator": "<"},
            ['operator: Unsupported value: "\\u003c": supported values: "Equal", "Exists"'],
        ),
        (
            {"key": "a", "operator": "Gt", "value": "1"},
            ['operator: Unsupported value: "Gt": supported values: "Equal", "Exists", "Lt", "Gt"'],
        ),
        (
            {"value": "a"},
            [
                'operator: Invalid value: "": operator must be Exists when `key` is empty, which means "match all '
                'values and all keys"'
            ],
        ),
        (
            {"key": "a", "operator": "Exists", "value": "b"},
            ["operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'"],
        ),
        ({"key": "a", "value": "b c"}, [f'operator: Invalid value: "b c": {BAD_VALUE}']),
        ({"key": "a b", "operator": "Exists"}, [f'key: Invalid value: "a b": {BAD_KEY}']),
        (
            {"key": "a", "operator": "Exists", "effect": "NoRun"},
            ['effect: Unsupported value: "NoRun": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'],
        ),
        (
            {"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3},
            ["effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set"],
        ),
    ],
    ids=[
        "all", "equal", "seconds", "operator", "sign", "comparison", "no key", "value", "value's syntax", "key",
        "effect", "seconds without eviction",
    ],
)  # fmt: skip
def test_tolerations(toleration: Json, said: list[str]) -> None:
    assert list_errors(build_pod(tolerations=[toleration])) == [f"spec.tolerations[0].{each}" for each in said]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("-3", []),
        ("03", ["must be a valid decimal integer in canonical form"]),
        ("x", ["must be a valid decimal integer in canonical form", 'strconv.ParseInt: parsing "x": invalid syntax']),
        (
            "-+5",
            ["must be a valid decimal integer in canonical form", 'strconv.ParseInt: parsing "-+5": invalid syntax'],
        ),
        ("9223372036854775808", ['strconv.ParseInt: parsing "9223372036854775808": value out of range']),
    ],
)
def test_comparison_operators_with_their_gate(value: str, said: list[str]) -> None:
    toleration = {"key": "a", "operator": "Gt", "value": value}
    found = list_errors(build_pod(tolerations=[toleration]), comparison_operators=True)
    assert found == [f'spec.tolerations[0].value: Invalid value: "{value}": {each}' for each in said]


def build_constraint(**fields: object) -> Json:
    own = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}
    return {**own, **fields}


@pytest.mark.parametrize(
    ("constraints", "said"),
    [
        ([build_constraint(minDomains=2, nodeAffinityPolicy="Honor", nodeTaintsPolicy="Ignore")], []),
        ([build_constraint(maxSkew=0)], ["maxSkew: Invalid value: 0: must be greater than zero"]),
        ([build_constraint(topologyKey="")], ["topologyKey: Required value: can not be empty"]),
        (
            [build_constraint(whenUnsatisfiable="DoNotschedule")],
            [
                'whenUnsatisfiable: Unsupported value: "DoNotschedule": supported values: "DoNotSchedule", '
                '"ScheduleAnyway"'
            ],
        ),
        (
            [build_constraint(), build_constraint(maxSkew=2)],
            ['{topologyKey, whenUnsatisfiable}: Duplicate value: "{zone, DoNotSchedule}"'],
        ),
        ([build_constraint(), build_constraint(whenUnsatisfiable="ScheduleAnyway")], []),
        (
            [build_constraint(minDomains=0, whenUnsatisfiable="ScheduleAnyway")],
            [
                "minDomains: Invalid value: 0: must be greater than zero",
                "minDomains: Invalid value: 0: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not "
                "ScheduleAnyway",
            ],
        ),
        (
            [build_constraint(nodeAffinityPolicy="honor")],
            ['nodeAffinityPolicy: Unsupported value: "honor": supported values: "Honor", "Ignore"'],
        ),
        (
            [build_constraint(nodeTaintsPolicy="")],
            ['nodeTaintsPolicy: Unsupported value: "": supported values: "Honor", "Ignore"'],
        ),
        (
            [build_constraint(matchLabelKeys=["app"], labelSelector=None)],
            ["matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"],
        ),
        ([build_constraint(matchLabelKeys=["a b"])], [f'matchLabelKeys[0]: Invalid value: "a b": {BAD_KEY}']),
        ([build_constraint(matchLabelKeys=["tier"])], []),
        (
            [build_constraint(labelSelector={"matchExpressions": [{"key": "app", "operator": "in", "values": ["w"]}]})],
            ['labelSelector.matchExpressions[0].operator: Invalid value: "in": not a valid selector operator'],
        ),
        (
            [build_constraint(labelSelector={"matchExpressions": [{"key": "app", "operator": "In"}]})],
            [
                "labelSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' "
                "or 'NotIn'"
            ],
        ),
        (
            [
 build_constraint(
 labelSelector={"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}
 )
 ],
            [
                "labelSelector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is "
                "'Exists' or 'DoesNotExist'"
            ],
        ),
        (
            [build_constraint(labelSelector={"matchLabels": {"app": "a b"}})],
            [f'labelSelector.matchLabels: Invalid value: "a b": {BAD_VALUE}'],
        ),
    ],
    ids=[
        "all fields", "maxSkew", "topologyKey", "whenUnsatisfiable", "twice", "hard and soft", "minDomains", "affinity",
        "taints", "no selector", "label key", "other label", "operator", "no values", "values", "label value",
    ],
)  # fmt: skip
def test_spread_constraints(constraints: list[Json], said: list[str]) -> None:
    found = list_errors(build_pod(topologySpreadConstraints=constraints))
    assert found == [f"spec.topologySpreadConstraints[0].{each}" for each in said]


def test_label_key_that_the_selector_also_has_is_a_duplicate() -> None:
    """Upstream's path has the index of the key, but not the name of the list."""
    manifest = build_pod(topologySpreadConstraints=[build_constraint(matchLabelKeys=["app"])])
    both = "exists in both matchLabelKeys and labelSelector"
    assert list_errors(manifest) == [f'spec.topologySpreadConstraints[0][0]: Invalid value: "app": {both}']
    before = 'spec.topologySpreadConstraints[0].matchLabelKeys[0]: Invalid value: "app": '
    assert list_errors(manifest, selector_merge=False) == [before + both]


def build_affinity(kind: str, **terms: object) -> Json:
    return build_pod(affinity={kind: terms})


def build_node_term(*expressions: Json, fields: tuple[Json, ...] = ()) -> Json:
    term = {"matchExpressions": list(expressions), "matchFields": list(fields)}
    return build_affinity("nodeAffinity", **{AFFINITY_TERMS: {"nodeSelectorTerms": [term]}})


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (build_node_term({"key": "a", "operator": "In", "values": ["b"]}), []),
        (
            build_affinity("nodeAffinity", **{AFFINITY_TERMS: {}}),
            [": Required value: must have at least one node selector term"],
        ),
        (
            build_node_term({"key": "a", "operator": "Equals", "values": ["b"]}),
            ['[0].matchExpressions[0].operator: Invalid value: "Equals": not a valid selector operator'],
        ),
        (
            build_node_term({"key": "a", "operator": "Gt", "values": ["1", "2"]}),
            [
                "[0].matchExpressions[0].values: Required value: must be specified single value when `operator` is "
                "'Lt' or 'Gt'"
            ],
        ),
        (
            build_node_term({"key": "a", "operator": "NotIn"}),
            ["[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"],
        ),
        (
            build_node_term({"key": "a", "operator": "Exists", "values": ["b"]}),
            [
                "[0].matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or "
                "'DoesNotExist'"
            ],
        ),
        (
            build_node_term({"key": "", "operator": "Exists"}),
            [
                '[0].matchExpressions[0].key: Invalid value: "": name part must be non-empty',
                f'[0].matchExpressions[0].key: Invalid value: "": {BAD_KEY}',
            ],
        ),
        (
            build_node_term({"key": "a", "operator": "In", "values": ["b c"]}),
            [f'[0].matchExpressions[0].values[0]: Invalid value: "b c": {BAD_VALUE}'],
        ),
        (build_node_term(fields=({"key": "metadata.name", "operator": "In", "values": ["n1"]},)), []),
        (
            build_node_term(fields=({"key": "metadata.name", "operator": "In", "values": ["n1", "n2"]},)),
            [
                "[0].matchFields[0].values: Required value: must be only one value when `operator` is 'In' or 'NotIn' "
                "for node field selector"
            ],
        ),
        (
            build_node_term(fields=({"key": "metadata.uid", "operator": "Exists"},)),
            [
                '[0].matchFields[0].operator: Invalid value: "Exists": not a valid selector operator',
                '[0].matchFields[0].key: Invalid value: "metadata.uid": not a valid field selector key',
            ],
        ),
    ],
    ids=[
        "right", "no terms", "operator", "two bounds", "no values", "values", "no key", "value", "name", "two names",
        "field",
    ],
)  # fmt: skip
def test_required_node_affinity(manifest: Json, said: list[str]) -> None:
    at = f"spec.affinity.nodeAffinity.{AFFINITY_TERMS}.nodeSelectorTerms"
    assert list_errors(manifest) == [f"{at}{each}" for each in said]


def test_preferred_node_affinity_needs_a_weight_but_no_valid_value() -> None:
    terms = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b c"]}]}}
        for weight in (0, 1, 100, 101)
    ]
    at = f"spec.affinity.nodeAffinity.{PREFERRED_TERMS}"
    assert list_errors(build_affinity("nodeAffinity", **{PREFERRED_TERMS: terms})) == [
        f"{at}[0].weight: Invalid value: 0: must be in the range 1-100",
        f"{at}[3].weight: Invalid value: 101: must be in the range 1-100",
    ]


def build_pod_term(**fields: object) -> Json:
    return {"topologyKey": "zone", "labelSelector": SELECTOR, **fields}


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize(
    ("term", "said"),
    [
        (build_pod_term(namespaces=["shop"], namespaceSelector={}), []),
        (
            build_pod_term(topologyKey=""),
            [
                ".topologyKey: Required value: can not be empty",
                '.topologyKey: Invalid value: "": name part must be non-empty',
                f'.topologyKey: Invalid value: "": {BAD_KEY}',
            ],
        ),
        (build_pod_term(namespaces=["Shop"]), [f'.namespace: Invalid value: "Shop": {BAD_LABEL}']),
        (
            build_pod_term(namespaceSelector={"matchExpressions": [{"key": "a", "operator": "Gt"}]}),
            ['.namespaceSelector.matchExpressions[0].operator: Invalid value: "Gt": not a valid selector operator'],
        ),
        (
            build_pod_term(matchLabelKeys=["a"], mismatchLabelKeys=["a"]),
            ['.matchLabelKeys[0]: Invalid value: "a": exists in both matchLabelKeys and mismatchLabelKeys'],
        ),
        (
            build_pod_term(mismatchLabelKeys=["a"], labelSelector=None),
            [".mismatchLabelKeys: Forbidden: must not be specified when labelSelector is not set"],
        ),
        (
            build_pod_term(matchLabelKeys=["app"]),
            ['[0]: Invalid value: "app": exists in both matchLabelKeys and labelSelector'],
        ),
    ],
    ids=["right", "topologyKey", "namespace", "namespaceSelector", "both lists", "no selector", "key in selector"],
)
def test_pod_affinity(kind: str, term: Json, said: list[str]) -> None:
    at = f"spec.affinity.{kind}.{AFFINITY_TERMS}[0]"
    assert list_errors(build_affinity(kind, **{AFFINITY_TERMS: [term]})) == [f"{at}{each}" for each in said]
    at = f"spec.affinity.{kind}.{PREFERRED_TERMS}[0]"
    weighted = {PREFERRED_TERMS: [{"weight": 101, "podAffinityTerm": term}]}
    weight = [f"{at}.weight: Invalid value: 101: must be in the range 1-100"]
    assert list_errors(build_affinity(kind, **weighted)) == weight + [f"{at}.podAffinityTerm{each}" for each in said]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"nodeSelector": {"a": "b c"}}, [f'nodeSelector: Invalid value: "b c": {BAD_VALUE}']),
        ({"nodeName": "N1"}, [f'nodeName: Invalid value: "N1": {BAD_SUBDOMAIN}']),
        ({"priorityClassName": "Gold"}, [f'priorityClassName: Invalid value: "Gold": {BAD_SUBDOMAIN}']),
        ({"runtimeClassName": "a_b"}, [f'runtimeClassName: Invalid value: "a_b": {BAD_SUBDOMAIN}']),
        (
            {"preemptionPolicy": "never"},
            [
                'preemptionPolicy: Unsupported value: "never": supported values: "PreemptLowerPriority", "Never"',
            ],
        ),
        ({"preemptionPolicy": ""}, ["preemptionPolicy: Required value"]),
        ({"schedulingGates": [{"name": "a.b/c"}] * 2}, ['schedulingGates[1]: Duplicate value: "a.b/c"']),
        ({"schedulingGates": [{"name": "a b"}]}, [f'schedulingGates[0]: Invalid value: "a b": {BAD_KEY}']),
        (
            {"schedulingGates": [{"name": "a"}], "nodeName": "n1"},
            ["nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
        ),
        ({"hostNetwork": True, "hostUsers": False}, ["hostNetwork: Forbidden: when `hostUsers` is false"]),
    ],
    ids=[
        "nodeSelector", "nodeName", "class", "runtime class", "policy", "no policy", "gate twice", "gate", "gated",
        "users",
    ],
)  # fmt: skip
def test_other_fields_of_the_spec(spec: Json, said: list[str]) -> None:
    assert list_errors(build_pod(**spec)) == [f"spec.{each}" for each in said]


def build_claim(**fields: str) -> Json:
    return {"name": "gpu", **fields}


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ([build_claim(resourceClaimName="a")], []),
        ([{"resourceClaimName": "a"}], [".name: Required value"]),
        ([build_claim(resourceClaimName="A")], [f'.resourceClaimName: Invalid value: "A": {BAD_SUBDOMAIN}']),
        (
            [build_claim()],
            [
                ': Invalid value: {"Name":"gpu","ResourceClaimName":null,"ResourceClaimTemplateName":null}: must '
                "specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            ],
        ),
        (
            [build_claim(resourceClaimName="a", resourceClaimTemplateName="b")],
            [
                ': Invalid value: {"Name":"gpu","ResourceClaimName":"a","ResourceClaimTemplateName":"b"}: at most one '
                "of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            ],
        ),
    ],
    ids=["right", "no name", "claim's name", "neither", "both"],
)
def test_resource_claims(claims: list[Json], said: list[str]) -> None:
    assert list_errors(build_pod(resourceClaims=claims)) == [f"spec.resourceClaims[0]{each}" for each in said]


def test_two_claims_with_one_name() -> None:
    two = [build_claim(resourceClaimName="a"), build_claim(resourceClaimTemplateName="b")]
    assert list_errors(build_pod(resourceClaims=two)) == ['spec.resourceClaims[1].name: Duplicate value: "gpu"']


def test_label_key_that_the_pod_lacks_adds_no_requirement() -> None:
    assert LABELS == {"app": "web"}
    manifest = build_pod(topologySpreadConstraints=[build_constraint(matchLabelKeys=["app"])])
    assert list_errors({**manifest, "metadata": {"name": "web"}}) == []
