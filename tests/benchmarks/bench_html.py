"""Measure HTML reports of one pod and of many: size, and the time to open, sort and filter in Chromium.

    python tests/benchmarks/bench_html.py [--nodes 5000] [--pods 100]

The aims at 5,000 nodes: under 8 MB, open within 2 s, no task of over 50 ms while somebody types a filter. Of many
pods, half of which fit, each asks for something else; the first's matrix is looked at.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from peak_memory import print_peak_memory
from playwright.sync_api import sync_playwright

from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import explain
from kschedctl.commands.explain.pending_pods import group_pending_pods
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.reports.document import Document
from kschedctl.scheduler.scheduler import Scheduler

ONE, MANY = "Nodes and plugins", "Nodes and plugins, for each pod"
SORT = """place => {
  place.querySelector("input[type=checkbox]").click();
  const start = performance.now();
  place.querySelectorAll("th button")[4].click();
  return performance.now() - start;
}"""
FILTER = """place => new Promise(done => {
  const long = [];
  new PerformanceObserver(list => long.push(...list.getEntries().map(e => e.duration))).observe({type: "longtask"});
  const search = place.querySelector("input[type=search]");
  search.focus();
  let typed = 0;
  const timer = setInterval(() => {
    search.value = "node-1".slice(0, ++typed);
    search.dispatchEvent(new Event("input"));
    if (typed === 6) { clearInterval(timer); setTimeout(() => done(long), 500); }
  }, 150);
})"""


def build_cluster(nodes: int, pods: int) -> Cluster:
    """Build three node pools in three zones, with pods of different requests.

    A fifth of the nodes is tainted, and a third is full.
    """
    objects: list[dict[str, Any]] = []
    for i in range(nodes):
        labels = {"topology.kubernetes.io/zone": f"zone-{i % 3}", "kubernetes.io/hostname": f"node-{i}"}
        labels["node.kubernetes.io/instance-type"] = f"type-{i % 4}"
        taints = [{"key": "own", "value": "a", "effect": "NoSchedule"}] if i % 5 == 0 else []
        room = {"cpu": "1" if i % 3 == 0 else str(4 + i % 13), "memory": "16Gi", "pods": "110"}
        meta = {"name": f"node-{i:05}.eu-west-1.compute.internal", "labels": labels}
        objects.append({"kind": "Node", "metadata": meta, "spec": {"taints": taints}, "status": {"allocatable": room}})
        own = {"cpu": f"{i * 37 % 900}m", "memory": f"{i * 91 % 4000}Mi"}
        objects.append(build_pod(f"running-{i}", own, meta["name"]))
    for i in range(pods):
        objects.append(
            build_pod(f"pending-{i}", {"cpu": f"{20 + i}" if i % 2 else f"{1000 + i}m", "memory": f"{i + 1}Mi"})
        )
    return Cluster.from_objects(objects)


def build_pod(name: str, requests: dict[str, str], node: str = "") -> dict[str, Any]:
    """Build a pod with these requests."""
    spec = {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": requests}}]}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "d"}, "spec": spec}


def main() -> None:
    """Measure the pages of one pod and of many pods."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=100)
    arguments = parser.parse_args()
    found = build_cluster(arguments.nodes, arguments.pods)
    measure_page(explain(found, build_pod("p", {"cpu": "2", "memory": "1Gi"})), ONE)
    measure_page(group_pending_pods(Scheduler(found), found.unbound_pods(), "", in_full=arguments.pods), MANY)


def measure_page(report: Document, title: str) -> None:
    """Render the report, open it in a browser, and use the first matrix of the section."""
    start = time.process_time()
    text = RENDERERS["html"](report, Style())
    print(f"{title}: made in {time.process_time() - start:.2f} s of CPU, {len(text.encode()) / 1e6:.2f} MB")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder, "report.html")
        file.write_text(text, "utf-8")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        start = time.perf_counter()
        page.goto(file.as_uri())
        print(f"  opened in {time.perf_counter() - start:.2f} s")
        place = page.get_by_role("region", name=title, exact=True)
        if place.locator("details").count():
            place = place.locator("details").first
            start = time.perf_counter()
            place.locator("summary").click()
            place.locator("tr.group").first.wait_for()
            print(f"  a matrix unpacked in {time.perf_counter() - start:.2f} s")
        print(f"  sorted in {place.evaluate(SORT):.0f} ms")
        stalls = [round(each) for each in place.evaluate(FILTER)]
        print(f"  tasks of over 50 ms while a filter was typed: {stalls or 'none'}")
        browser.close()


if __name__ == "__main__":
    main()
    print_peak_memory()
