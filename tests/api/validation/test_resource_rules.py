"""Check the API server's messages about requests, limits, claims of containers, and volumes."""

from __future__ import annotations

import pytest
from written_manifests import Json, build_container, build_pod, list_errors

GPU, PAGES = "nvidia.com/gpu", "hugepages-2Mi"


@pytest.mark.parametrize(
    ("resources", "said"),
    [
        ({"requests": {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": 1}}, []),
        ({"limits": {GPU: 1, "cpu": 1}}, []),
        (
            {"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}},
            ['.requests: Invalid value: "2": must be less than or equal to cpu limit of 1500m'],
        ),
        (
            {"limits": {GPU: "500m"}},
            [
                f'.limits[{GPU}]: Invalid value: "500m": must be an integer',
                f'.requests[{GPU}]: Invalid value: "500m": must be an integer',
            ],
        ),
        ({"requests": {GPU: 1}}, [".limits: Required value: Limit must be set for non overcommitable resources"]),
        (
            {"requests": {GPU: 1}, "limits": {GPU: 2}},
            [f'.requests: Invalid value: "1": must be equal to {GPU} limit of 2'],
        ),
        (
            {"requests": {"cpu": -1}},
            ['.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0'],
        ),
        (
            {"requests": {"gpu": 1}},
            [
                '.requests[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified',
                '.requests[gpu]: Invalid value: "gpu": must be a standard resource for containers',
            ],
        ),
        (
            {"requests": {"pods": 1}},
            ['.requests[pods]: Invalid value: "pods": must be a standard resource for containers'],
        ),
        (
            {"limits": {"requests.example.com/a": 1}, "requests": {}},
            [
                f'.{part}[requests.example.com/a]: Invalid value: "requests.example.com/a": doesn\'t follow extended '
                "resource name standard"
                for part in ("limits", "requests")
            ],
        ),
        (
            {"limits": {PAGES: "4Mi"}},
            [": Forbidden: HugePages require cpu or memory"],
        ),
        (
            {"limits": {PAGES: "3Mi", "cpu": 1}},
            [
                f'.{part}[{PAGES}]: Invalid value: "3Mi": 3Mi is not positive integer multiple of {PAGES}'
                for part in ("limits", "requests")
            ],
        ),
        (
            {"limits": {PAGES: "4Mi", "cpu": 1}, "requests": {PAGES: "2Mi"}},
            [f'.requests: Invalid value: "2Mi": must be equal to {PAGES} limit of 4Mi'],
        ),
    ],
    ids=[
        "right", "limits", "above limit", "half a device", "no limit", "other limit", "negative", "no domain", "pods",
        "quota's name", "pages alone", "half a page", "fewer pages",
    ],
)  # fmt: skip
def test_resources_of_a_container(resources: Json, said: list[str]) -> None:
    assert list_errors(build_container(resources=resources)) == [f"spec.containers[0].resources{each}" for each in said]


def test_amounts_are_rounded_up_to_thousandths_first() -> None:
    """The API server compares 100.5m as 101m."""
    found = list_errors(build_container(resources={"requests": {"cpu": "100.5m"}, "limits": {"cpu": "100m"}}))
    at = "spec.containers[0].resources.requests"
    assert found == [f'{at}: Invalid value: "101m": must be less than or equal to cpu limit of 100m']


@pytest.mark.parametrize(
    ("resources", "said"),
    [
        ({"requests": {"cpu": 1}}, []),
        (
            {"requests": {"cpu": "100m"}},
            [
                '.requests[cpu]: Invalid value: "100m": must be greater than or equal to aggregate '
                "container requests of 500m"
            ],
        ),
        (
            {"limits": {"cpu": "500m", GPU: 1}},
            [f'.limits[{GPU}]: Unsupported value: "{GPU}": supported values: "cpu", "hugepages-", "memory"'],
        ),
        (
            {"limits": {"cpu": "600m"}},
            ['.containers[0][cpu].limits: Invalid value: "700m": must be less than or equal to pod limits of 600m'],
        ),
        ({"claims": [{"name": "a"}]}, [".claims: Forbidden: claims may not be set for Resources at pod-level"]),
    ],
    ids=["right", "less than the containers", "device", "limit of one", "claims"],
)
def test_resources_of_the_pod(resources: Json, said: list[str]) -> None:
    own = {"requests": {"cpu": "500m"}, "limits": {"cpu": "700m"}} if "claims" not in resources else {}
    if GPU in resources.get("limits", {}):
        own = {"requests": {"cpu": "500m"}}
    manifest = build_pod(resources=resources, containers=[{"name": "c", "image": "w", "resources": own}])
    assert list_errors(manifest) == [f"spec.resources{each}" for each in said]
    assert list_errors(manifest, pod_level_resources=False) == []


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ([{"name": "gpu"}], []),
        ([{"name": "gpu", "request": "a"}, {"name": "gpu", "request": "b"}], []),
        ([{}], ["[0]: Required value"]),
        ([{"name": "gpu"}] * 2, ['[1]: Duplicate value: "gpu"']),
        ([{"name": "gpu", "request": "a"}] * 2, ['[1]: Duplicate value: "gpu/a"']),
        ([{"name": "gpu", "request": "a"}, {"name": "gpu"}], ['[1]: Duplicate value: "gpu"']),
        ([{"name": "x"}], ['[0]: Not found: "x": must be one of the names in pod.spec.resourceClaims: gpu, nic']),
    ],
    ids=["right", "two requests", "no name", "twice", "request twice", "part and whole", "unknown"],
)
def test_claims_of_a_container(claims: list[Json], said: list[str]) -> None:
    known = [{"name": name, "resourceClaimName": name} for name in ("nic", "gpu")]
    manifest = build_container(resources={"claims": claims})
    manifest["spec"]["resourceClaims"] = known
    assert list_errors(manifest) == [f"spec.containers[0].resources.claims{each}" for each in said]


def test_container_claim_without_claims_of_the_pod() -> None:
    said = "must be one of the names in pod.spec.resourceClaims which is empty"
    at = "spec.containers[0].resources.claims[0]"
    assert list_errors(build_container(resources={"claims": [{"name": "x"}]})) == [f'{at}: Not found: "x": {said}']


def test_overhead_is_validated_as_limits() -> None:
    at = "spec.overhead.limits[cpu]"
    assert list_errors(build_pod(overhead={"cpu": -1})) == [
        f'{at}: Invalid value: "-1": must be greater than or equal to 0'
    ]


MODES = ["ReadWriteOncePod", "ReadWriteMany", "RWX"]
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@pytest.mark.parametrize(
    ("volume", "said"),
    [
        ({"name": "v"}, []),
        ({"name": "v", "emptyDir": {}}, []),
        ({"emptyDir": {}}, [".name: Required value"]),
        ({"name": "v", "persistentVolumeClaim": {}}, [".persistentVolumeClaim.claimName: Required value"]),
        (
            {"name": "v", "emptyDir": {}, "configMap": {"name": "c"}},
            [".configMap: Forbidden: may not specify more than 1 volume type"],
        ),
        ({"name": "v", "gcePersistentDisk": {}}, [".persistentDisk.pdName: Required value"]),
        ({"name": "v", "rbd": {"image": "i"}}, [".rbd.monitors: Required value"]),
        ({"name": "v", "image": {}}, [".image.reference: Required value"]),
        ({"name": "v", "ephemeral": {}}, [".ephemeral.volumeClaimTemplate: Required value"]),
        ({"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}, []),
        (
            {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            [
                ".ephemeral.volumeClaimTemplate.spec.accessModes: Required value: at least 1 access mode is required",
                ".ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value",
            ],
        ),
        (
            {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {**CLAIM, "accessModes": MODES}}}},
            [
                '.ephemeral.volumeClaimTemplate.spec.accessModes: Unsupported value: "RWX": supported values: '
                '"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"',
                ".ephemeral.volumeClaimTemplate.spec.accessModes: Forbidden: may not use ReadWriteOncePod with other "
                "access modes",
            ],
        ),
    ],
    ids=[
        "default", "emptyDir", "no name", "no claim", "two sources", "disk", "monitors", "image", "no template",
        "template", "empty claim", "modes",
    ],
)  # fmt: skip
def test_volumes(volume: Json, said: list[str]) -> None:
    assert list_errors(build_pod(volumes=[volume])) == [f"spec.volumes[0]{each}" for each in said]


def test_names_of_volumes() -> None:
    assert list_errors(build_pod(volumes=[{"name": "v"}, {"name": "v"}])) == [
        'spec.volumes[1].name: Duplicate value: "v"'
    ]
    created = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}
    named = {"name": "x", "persistentVolumeClaim": {"claimName": "web-v"}}
    said = "must not reference a PVC that gets created for an ephemeral volume"
    at = "spec.volumes[1].persistentVolumeClaim.claimName"
    assert list_errors(build_pod(volumes=[created, named])) == [f'{at}: Invalid value: "web-v": {said}']
