"""Check what every report can do: a line, Markdown, HTML, a frame for notebooks, rows for polars and pandas."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import kschedctl
from kschedctl import demo
from kschedctl.reports.report import Report

PENDING, ZONE = "shop/web-6d4cf56db6-h8s2k", "topology.kubernetes.io/zone"


@pytest.fixture(scope="module")
def cluster() -> kschedctl.Cluster:
    return kschedctl.Cluster.from_paths(list(demo.list_files()), assume_complete=True)


@pytest.fixture(scope="module")
def explained(cluster: kschedctl.Cluster) -> Report:
    return kschedctl.explain(cluster, PENDING)


def test_report_has_a_one_line_repr(cluster: kschedctl.Cluster, explained: Report) -> None:
    assert str(explained).startswith(f"{PENDING} Schedulable: on ")
    assert "\n" not in str(explained)
    assert len(str(explained)) < 400
    assert str(kschedctl.drain(cluster, ["general-a1"])) == " ".join(
        kschedctl.drain(cluster, ["general-a1"]).build_headline_parts()
    )


def test_control_characters_of_a_cluster_are_escaped() -> None:
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": "9"}}}
    name = "no\x1b[2J"
    pod = {"kind": "Pod", "metadata": {"name": name, "namespace": "a"}, "spec": {"containers": []}}
    cluster = kschedctl.Cluster.from_objects([node, pod])
    assert "\x1b" not in str(kschedctl.explain(cluster, f"a/{name}"))


def test_markdown_and_html_are_those_of_the_commands(explained: Report) -> None:
    assert "| node" in explained.to_markdown() or "##" in explained.to_markdown()
    assert explained.to_html().startswith("<!doctype html>")
    assert PENDING in explained.to_html()


def test_notebooks_show_the_page_in_a_frame(explained: Report) -> None:
    shown = explained._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts"')
    assert shown.count("<") == 2  # the frame, opened and closed: all of the page is escaped


def test_reports_without_a_command_are_shown(cluster: kschedctl.Cluster) -> None:
    run = kschedctl.run_queue(cluster)
    assert str(run) in run.to_markdown().replace("*", "")
    assert str(run) in run.to_html()


def test_rows_are_passed_to_the_installed_library(explained: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stub replaces the library, which takes a mapping of columns."""
    monkeypatch.setattr("kschedctl.render.main_table.find_spec", lambda name: None)
    with pytest.raises(kschedctl.KschedctlError, match="neither polars nor pandas is installed"):
        explained.to_frame()
    library: Any = SimpleNamespace(DataFrame=lambda columns: columns)
    monkeypatch.setitem(sys.modules, "pandas", library)
    monkeypatch.setattr("kschedctl.render.main_table.find_spec", lambda name: object() if name == "pandas" else None)
    columns = explained.to_frame()
    assert set(columns["pod"]) == {PENDING}
    assert set(columns["node"]) == {node.name for node in explained.nodes}  # type: ignore[attr-defined]
    assert len({len(column) for column in columns.values()}) == 1


WEB = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "new", "namespace": "shop"},
    "spec": {"containers": [{"name": "c", "image": "web"}]},
}
FRAMES: dict[str, tuple[Callable[[kschedctl.Cluster], Report], set[str]]] = {
    "explain": (lambda c: kschedctl.explain(c, PENDING), {"pod", "node", "score", "reason"}),
    "explain, refused": (lambda c: kschedctl.explain(c, "shop/checkout-7d9f6c5b8-x2x4q"), {"node", "score", "fact"}),
    "pools": (lambda c: kschedctl.pools(c, now=demo.DEMO_TIME), {"pool", "nodes", "shapes"}),
    "remedies": (lambda c: kschedctl.remedies(c, "shop/checkout-7d9f6c5b8-x2x4q"), {"summary", "opens"}),
    "pending_remedies": (kschedctl.pending_remedies, {"remedy.summary", "clears"}),
    "audit": (lambda c: kschedctl.audit(c, now=demo.DEMO_TIME), {"rule", "severity", "object"}),
    "metrics": (lambda c: kschedctl.cluster_metrics(c, now=demo.DEMO_TIME), {"metric", "labels", "value"}),
    "scale_down": (
        lambda c: kschedctl.scale_down(c, pool_label=ZONE, now=demo.DEMO_TIME),
        {"name", "state", "reason"},
    ),
    "admit": (lambda c: kschedctl.admit(c, WEB), {"code", "message"}),
    "capacity": (lambda c: kschedctl.capacity(c, [WEB], most=2), {"shape", "fits", "node"}),
}


@pytest.mark.parametrize("name", FRAMES)
def test_every_report_has_rows(name: str, cluster: kschedctl.Cluster) -> None:
    """polars itself builds the frame, and rejects a column of texts and numbers."""
    polars = pytest.importorskip("polars")
    ask, columns = FRAMES[name]
    frame = ask(cluster).to_frame()
    assert isinstance(frame, polars.DataFrame)
    assert columns <= {*frame.columns}
    assert len(frame) > 0
    if name == "explain":
        assert frame["score"].dtype == polars.Int64


def test_rows_without_csv_are_the_main_list(cluster: kschedctl.Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kschedctl.render.main_table.find_spec", lambda name: object() if name == "pandas" else None)
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=lambda columns: columns))
    frame = kschedctl.pools(cluster, now=demo.DEMO_TIME).to_frame()
    assert frame["pool"] == ["general", "gpu", "spot"]
    metrics = kschedctl.cluster_metrics(cluster, now=demo.DEMO_TIME).to_frame()
    assert "verdict=Gated" in {label for labels in metrics["labels"] for label in labels}


def test_manifest_that_the_api_server_rejects_is_an_error(cluster: kschedctl.Cluster) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "Web"}, "spec": {"containers": [{"name": "c"}]}}
    with pytest.raises(kschedctl.KschedctlError, match=r'The Pod "Web" is invalid: metadata.name'):
        kschedctl.explain(cluster, pod)


def test_lint_package_is_callable(cluster: kschedctl.Cluster) -> None:
    import kschedctl.lint.engine  # noqa: PLC0415 - which makes the package an attribute of kschedctl

    assert kschedctl.lint(cluster=cluster, select=["pdb-*"]).kind == "Findings"
