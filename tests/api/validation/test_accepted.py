"""Check that nothing an API server accepted is rejected: a false rejection is worse than a miss."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from golden_cases import FAMILIES, iter_family_lines
from test_recordings import DUMP, PENDING, PLACED
from written_manifests import Json, list_errors

from kschedctl.api.validation.manifests import KINDS
from kschedctl.cluster import flatten_lists
from kschedctl.scheduler.configuration.version_fields import build_validation_options
from kschedctl.scheduler.framework.feature_gates import FeatureGates

CHARTS = sorted((Path(__file__).parents[2] / "lint" / "charts").glob("*.yaml"))
INVENTED = {
    "basic-resources": ("doesn't follow extended resource name standard",),
    "confignegative": ("Limit must be set for non overcommitable resources",),
    "config": ("hostPort: ", "exists in both matchLabelKeys and labelSelector"),
    "declaredfeatures": ("spec.hostNetwork: Forbidden: when `hostUsers` is false",),
    "gatemix": ("aggregate container requests", "spec.hostNetwork: Forbidden: when `hostUsers` is false"),
    "labelops": ("nodeAffinity",),
    "nodealloc2": ("aggregate container requests",),
    "nominate": ("hostPort: ",),
    "podres": ("esources",),
    "portsimages": ("hostPort: ", "image"),
    "quantity": ("esources",),
    "spreadmix": ("exists in both matchLabelKeys and labelSelector",),
    "tolerate": ("spec.tolerations",),
    "weights": ("exists in both matchLabelKeys and labelSelector",),
    "edge": ("exists in both matchLabelKeys and labelSelector",),
    "mixed": (
        *("hostPort: ", "exists in both matchLabelKeys and labelSelector", "nodeSelectorTerms"),
        *("spec.tolerations", "doesn't follow extended resource name standard", "aggregate container requests"),
        "spec.hostNetwork: Forbidden: when `hostUsers` is false",
    ),
    "nodeaffinity": ("nodeAffinity",),
    "nodealloc": ("aggregate container requests",),
    "nodename": ("nodeAffinity",),
    "nodeports": ("hostPort: ",),
    "podaffinity": ("exists in both matchLabelKeys and labelSelector",),
    "resize": ("aggregate container requests", "doesn't follow extended resource name standard"),
    "taints": ("spec.tolerations",),
    "topologyspread": ("exists in both matchLabelKeys and labelSelector",),
}
"""Family -> deliberately invalid parts of its pods, which were given to the scheduler without an API server."""


def iter_workloads(documents: list[Json]) -> Iterator[Json]:
    """Yield the pods and the objects with pod templates."""
    return (document for document in flatten_lists(documents) if document and document.get("kind") in KINDS)


@pytest.mark.parametrize("family", FAMILIES)
def test_pods_of_golden_cases_are_valid(family: str) -> None:
    said = set()
    for line in iter_family_lines(family):
        case = json.loads(line)
        if case["want"]["verdict"] == "Refused":
            continue
        options = build_validation_options(FeatureGates(overrides=case.get("featureGates") or {}))._asdict()
        for document in iter_workloads(case["objects"]):
            said |= set(list_errors(document, **options))
    assert [each for each in said if not any(part in each for part in INVENTED.get(family, ()))] == []


def test_pods_of_recorded_clusters_are_valid() -> None:
    """The recordings have no templates from which the pods were created."""
    documents = [*PENDING["objects"], *(each for case in PLACED for each in case["objects"])]
    documents += [file for file in DUMP.values() if isinstance(file, dict)]
    found = [document for document in iter_workloads(documents) if document["kind"] == "Pod"]
    assert len(found) > 100
    assert [each for document in found for each in list_errors(document)] == []


@pytest.mark.parametrize("chart", CHARTS, ids=lambda path: path.stem)
def test_common_charts_are_valid(chart: Path) -> None:
    found = list(iter_workloads(list(yaml.load_all(chart.read_text(), yaml.CSafeLoader))))
    assert found
    assert [each for document in found for each in list_errors(document)] == []
