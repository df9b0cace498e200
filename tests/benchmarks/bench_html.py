"""The HTML report of a big explanation: its size, and in Chromium the time to open, sort and filter it.

    python tests/benchmarks/bench_html.py [--nodes 5000]

The aims at 5,000 nodes: under 8 MB, open within 2 s, no task of over 50 ms while somebody types a filter.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from kschedctl.cluster import Cluster
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.studies.explain import explain

MATRIX = "Nodes and plugins"
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
  let typed = 0;
  const timer = setInterval(() => {
    search.value = "node-1".slice(0, ++typed);
    search.dispatchEvent(new Event("input"));
    if (typed === 6) { clearInterval(timer); setTimeout(() => done(long), 500); }
  }, 150);
})"""


def cluster(nodes: int) -> Cluster:
    """Three pools in three zones; a fifth of the nodes is tainted, and a third full."""
    objects: list[dict[str, Any]] = []
    for i in range(nodes):
        labels = {"topology.kubernetes.io/zone": f"zone-{i % 3}", "kubernetes.io/hostname": f"node-{i}"}
        labels["node.kubernetes.io/instance-type"] = f"type-{i % 4}"
        taints = [{"key": "own", "value": "a", "effect": "NoSchedule"}] if i % 5 == 0 else []
        room = {"cpu": "1" if i % 3 == 0 else str(4 + i % 13), "memory": "16Gi", "pods": "110"}
        meta = {"name": f"node-{i:05}.eu-west-1.compute.internal", "labels": labels}
        objects.append({"kind": "Node", "metadata": meta, "spec": {"taints": taints}, "status": {"allocatable": room}})
    return Cluster.from_objects(objects)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    container = {"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}
    pod = {"kind": "Pod", "metadata": {"name": "p", "namespace": "d"}, "spec": {"containers": [container]}}
    report = explain(cluster(parser.parse_args().nodes), pod)
    start = time.process_time()
    text = RENDERERS["html"](report, Style())
    print(f"made in {time.process_time() - start:.2f} s of CPU, {len(text.encode()) / 1e6:.2f} MB")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder, "report.html")
        file.write_text(text, "utf-8")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        start = time.perf_counter()
        page.goto(file.as_uri())
        print(f"opened in {time.perf_counter() - start:.2f} s")
        place = page.get_by_role("region", name=MATRIX)
        print(f"sorted in {place.evaluate(SORT):.0f} ms")
        stalls = [round(each) for each in place.evaluate(FILTER)]
        print(f"tasks of over 50 ms while a filter was typed: {stalls or 'none'}")
        browser.close()


if __name__ == "__main__":
    main()
