"""How long lint takes: many manifests beside yaml's C loader alone, and the rules that need a cluster on a big one.

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
from peak_memory import print_peak

from kschedctl.cluster import Cluster
from kschedctl.lint.catalogue import RULES
from kschedctl.lint.engine import lint
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import Rule
from kschedctl.sources.documents.files import find_files
from kschedctl.sources.documents.positions import load_objects
from kschedctl.sources.read import read
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--manifests", type=int, default=5000)
    parser.add_argument("--cluster")
    parser.add_argument("--files", nargs="+", metavar="FOLDER")
    options = parser.parse_args()
    if options.files:
        _files(options.files)
    elif options.cluster:
        _cluster(options.cluster)
    else:
        _manifests(options.manifests)


def _manifests(count: int) -> None:
    """Half of the objects are Deployments, half budgets, one of each in a file; then with a finding in every file."""
    with tempfile.TemporaryDirectory() as folder:
        for name, change in (("clean", ""), ("findings", "maxUnavailable: 0")):
            files = [Path(folder) / f"{name}-{i}.yaml" for i in range(count // 2)]
            for i, file in enumerate(files):
                text = MANIFEST.format(i=i, team=i % 20)
                file.write_text(text.replace("maxUnavailable: 1", change) if change else text)
            loader, _ = _timed(partial(_load, files))
            ours, found = _timed(partial(_lint, files))
            told = f"{ours:.2f} s, {found} findings; loader {loader:.2f} s, {ours / loader:.2f} times"
            print(f"{count} manifests, {name}: {told}")


def _files(folders: list[str]) -> None:
    """In pairs, as the machine may be busy; what the loader alone cannot read counts too."""
    found = [Path(file) for file in find_files(folders, recursive=True).files]
    files = [file for file in found if b"{{" not in file.read_bytes()]
    for _ in range(3):
        loading, documents = _timed(partial(_load, files))
        ours, findings = _timed(partial(_lint_repository, files))
        told = f"{ours:.2f} s, {findings} findings; loader {loading:.2f} s, {ours / loading:.2f} times"
        print(f"{len(files)} files, {documents} documents: {told}")


def _lint_repository(files: list[Path]) -> int:
    manifests = read_repository([str(file) for file in files]).objects
    return len(lint(LintContext.from_manifests(((m.value, m) for m in manifests), None)).findings)


def _load(files: list[Path]) -> int:
    documents = 0
    for file in files:
        with suppress(yaml.YAMLError):
            for _ in yaml.load_all(file.read_bytes(), yaml.CSafeLoader):
                documents += 1
    return documents


def _lint(files: list[Path]) -> int:
    manifests = (manifest for file in files for manifest in load_objects(str(file)))
    return len(lint(LintContext.from_manifests(((m.value, m) for m in manifests), None)).findings)


def _cluster(folder: str) -> None:
    loading, cluster = _timed(partial(_read, folder))
    lint_context = LintContext.from_cluster(cluster)
    total = 0.0
    for rule in RULES:
        seconds, found = _timed(partial(_count, rule, lint_context))
        total += seconds
        if seconds > 0.2:
            print(f"  {rule.id}: {seconds:.2f} s, {found} findings")
    sizes = f"{len(cluster.nodes)} nodes, {len(cluster.pods)} pods, {len(lint_context.workloads)} workloads"
    print(f"{sizes}: {total:.2f} s, loading {loading:.2f} s")


def _read(folder: str) -> Cluster:
    return Cluster.of(read([folder]).objects)


def _count(rule: Rule, lint_context: LintContext) -> int:
    return len(list(rule.check(lint_context)))


def _timed(run: Callable[[], T]) -> tuple[float, T]:
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


if __name__ == "__main__":
    main()
    print_peak()
