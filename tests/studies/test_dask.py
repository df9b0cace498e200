"""Scenarios over a Dask cluster, a real one of two workers in processes of their own: the results are the same."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from small import node, workload
from test_failures import random_cluster

from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.studies.failures import failures
from kschedctl.studies.parallel import Workers
from kschedctl.studies.simulate import simulate

distributed, dask = pytest.importorskip("distributed"), pytest.importorskip("dask")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(host="127.0.0.1", **options) as cluster:
        yield str(cluster.scheduler_address)


def test_failures(address: str) -> None:
    cluster = Cluster.from_objects(random_cluster(Random(3)))
    assert failures(cluster, "node", workers=Workers(dask=address)).to_dict() == failures(cluster, "node").to_dict()


def test_runs(address: str) -> None:
    cluster = Cluster.from_objects([node("n1", "a"), node("n2", "b")])
    manifest = workload("Deployment", spec={"replicas": 3})
    there = simulate(cluster, [manifest], runs=6, workers=Workers(dask=address))
    assert there.to_dict() == simulate(cluster, [manifest], runs=6).to_dict()


def test_no_scheduler_there() -> None:
    quickly = dask.config.set({"distributed.comm.timeouts.connect": "1s"})
    with quickly, pytest.raises(UsageError, match="no Dask scheduler answers"):
        failures(Cluster.from_objects(random_cluster(Random(3))), workers=Workers(dask="tcp://127.0.0.1:9"))
