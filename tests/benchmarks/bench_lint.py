"""Measure lint on many manifests, relative to yaml's C loader, and the rules that need a big cluster.

    python tests/benchmarks/bench_lint.py [--manifests 5000] [--cluster FOLDER] [--files FOLDER …]

FOLDER is what make_cluster.py wrote; loading it is timed apart. --files: folders of real manifests, such as checkouts
of repositories, templates among them left out. Prints seconds of CPU, and the ratio to the loader.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import yaml
from peak_memory import print_peak_memory

from kschedctl.cluster import Cluster
from kschedctl.lint.catalogue import RULES
from kschedctl.lint.context import LintContext
from kschedctl.lint.engine import lint
from kschedctl.lint.rule import Rule
from kschedctl.sources.documents.files import find_files
from kschedctl.sources.documents.positions import load_objects
from kschedctl.sources.read import read_paths
from kschedctl.sources.repository import read_repository

T = TypeVar("T")

MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web-{i}
  namespace: team-{team}
  labels: {{app.kubernetes.io/name: web-{i}, app.kubernetes.io/part-of: shop}}
spec:
  replicas: 3
  selector:
    matchLabels: {{app.kubernetes.io/name: web-{i}}}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: web-{i}
        app.kubernetes.io/part-of: shop
    spec:
      priorityClassName: standard
      serviceAccountName: web
      containers:
        - name: web
          image: registry.example.com/shop/web:1.{i}
          args: ["--listen=:8080", "--log-level=info"]
          env:
            - name: POD_NAME
              valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}
            - name: REGION
              value: eu-west-1
          ports:
            - containerPort: 8080
              name: http
          resources:
            requests: {{cpu: 250m, memory: 256Mi}}
            limits: {{memory: 256Mi}}
          readinessProbe:
            httpGet: {{path: /healthz, port: http}}
            periodSeconds: 5
          volumeMounts:
            - name: config
              mountPath: /etc/web
      volumes:
        - name: config
          configMap: {{name: web-{i}}}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: topology.kubernetes.io/zone
          whenUnsatisfiable: DoNotSchedule
          labelSelector:
            matchLabels: {{app.kubernetes.io/name: web-{i}}}
          matchLabelKeys: [pod-template-hash]
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{app.kubernetes.io/name: web-{i}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: web-{i}, namespace: team-{team}}}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{app.kubernetes.io/name: web-{i}}}
"""


def main() -> None:
    """Measure lint on generated manifests, on a cluster or on folders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--manifests", type=int, default=5000)
    parser.add_argument("--cluster")
    parser.add_argument("--files", nargs="+", metavar="FOLDER")
    options = parser.parse_args()
    if options.files:
        _measure_folders(options.files)
    elif options.cluster:
        _measure_cluster(options.cluster)
    else:
        _measure_manifests(options.manifests)


def _measure_manifests(count: int) -> None:
    """Lint Deployments and budgets, a pair per file, then the same files with a finding in each."""
    with tempfile.TemporaryDirectory() as folder:
        for name, change in (("clean", ""), ("findings", "maxUnavailable: 0")):
            files = [Path(folder) / f"{name}-{i}.yaml" for i in range(count // 2)]
            for i, file in enumerate(files):
                text = MANIFEST.format(i=i, team=i % 20)
                file.write_text(text.replace("maxUnavailable: 1", change) if change else text)
            loader, _ = _run_timed(partial(_count_documents, files))
            ours, found = _run_timed(partial(_count_findings, files))
            told = f"{ours:.2f} s, {found} findings; loader {loader:.2f} s, {ours / loader:.2f} times"
            print(f"{count} manifests, {name}: {told}")


def _measure_folders(folders: list[str]) -> None:
    """Lint each folder and only load it, in turns, since the machine may be busy.

    Files that only the loader cannot read count, too.
    """
    found = [Path(file) for file in find_files(folders, recursive=True).files]
    files = [file for file in found if b"{{" not in file.read_bytes()]
    for _ in range(3):
        loading, documents = _run_timed(partial(_count_documents, files))
        ours, findings = _run_timed(partial(_count_repository_findings, files))
        told = f"{ours:.2f} s, {findings} findings; loader {loading:.2f} s, {ours / loading:.2f} times"
        print(f"{len(files)} files, {documents} documents: {told}")


def _count_repository_findings(files: list[Path]) -> int:
    """Lint the files of a repository and count the findings."""
    manifests = read_repository([str(file) for file in files]).objects
    return len(lint(LintContext.from_manifests(((m.value, m) for m in manifests), None)).findings)


def _count_documents(files: list[Path]) -> int:
    """Load all documents of the files and count them."""
    documents = 0
    for file in files:
        with suppress(yaml.YAMLError):
            for _ in yaml.load_all(file.read_bytes(), yaml.CSafeLoader):
                documents += 1
    return documents


def _count_findings(files: list[Path]) -> int:
    """Lint the files and count the findings."""
    manifests = (manifest for file in files for manifest in load_objects(str(file)))
    return len(lint(LintContext.from_manifests(((m.value, m) for m in manifests), None)).findings)


def _measure_cluster(folder: str) -> None:
    """Lint a cluster and print the rules that take longest."""
    loading, cluster = _run_timed(partial(_read_cluster, folder))
    lint_context = LintContext.from_cluster(cluster)
    total = 0.0
    for rule in RULES:
        seconds, found = _run_timed(partial(_count_problems, rule, lint_context))
        total += seconds
        if seconds > 0.2:
            print(f"  {rule.id}: {seconds:.2f} s, {found} findings")
    sizes = f"{len(cluster.nodes)} nodes, {len(cluster.pods)} pods, {len(lint_context.workloads)} workloads"
    print(f"{sizes}: {total:.2f} s, loading {loading:.2f} s")


def _read_cluster(folder: str) -> Cluster:
    """Read the cluster in a folder."""
    return Cluster.of(read_paths([folder]).objects)


def _count_problems(rule: Rule, lint_context: LintContext) -> int:
    """Count the problems that a rule finds."""
    return len(list(rule.check(lint_context)))


def _run_timed(run: Callable[[], T]) -> tuple[float, T]:
    """Run a function and return the seconds and its result."""
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


if __name__ == "__main__":
    main()
    print_peak_memory()
