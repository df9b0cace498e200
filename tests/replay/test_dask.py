"""Check that scenarios give the same results on a real Dask cluster of two workers."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import pytest
from commands.consolidate.test_consolidate import build_constrained_cluster
from commands.failures.test_failures import build_random_cluster
from small import build_node, build_replica, build_workload

from kschedctl.cluster import Cluster
from kschedctl.commands.capacity import capacity
from kschedctl.commands.consolidate.plan import find_removable_nodes
from kschedctl.commands.drain import drain_nodes
from kschedctl.commands.failures import simulate_failures
from kschedctl.commands.failures.report import Failures
from kschedctl.commands.make_room import find_room
from kschedctl.commands.simulate import simulate
from kschedctl.commands.size.shapes import build_pool_shapes
from kschedctl.commands.size.sizing import size_cluster
from kschedctl.commands.whatif import whatif
from kschedctl.errors import ClusterError, UsageError
from kschedctl.replay.parallel import Workers, ask_each_cluster, run_tasks

distributed, dask = pytest.importorskip("distributed"), pytest.importorskip("dask")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(host="127.0.0.1", **options) as cluster:
        yield str(cluster.scheduler_address)


def test_failures(address: str) -> None:
    cluster = Cluster.from_objects(build_random_cluster(Random(3)))
    assert (
        simulate_failures(cluster, "node", workers=Workers(dask=address)).to_dict()
        == simulate_failures(cluster, "node").to_dict()
    )


def test_sets_of_nodes(address: str) -> None:
    objects = [
        build_node("n1", "a"),
        build_node("n2", "b", cpu="2"),
        *(build_replica(f"p{number}", "", "1") for number in range(9)),
    ]
    cluster = Cluster.from_objects(objects)
    shapes = build_pool_shapes(cluster)
    assert size_cluster(cluster, shapes, workers=Workers(dask=address)) == size_cluster(cluster, shapes)


def test_removable_nodes(address: str) -> None:
    cluster = Cluster.from_objects(build_constrained_cluster(0))
    alone = find_removable_nodes(cluster)
    assert alone.removable
    assert alone.staying
    assert find_removable_nodes(cluster, workers=Workers(dask=address)) == alone


def test_room(address: str) -> None:
    """Each of two pods needs two moves. The workers that judge the second plan know the first."""
    nodes = [build_node(f"n{number}", cpu="4") for number in (1, 2)] + [
        build_node(f"m{number}", cpu="2") for number in range(4)
    ]
    running = [build_replica(f"r{number}", f"n{1 + number // 2}", "2") for number in range(4)]
    waiting = [{**build_replica(name, "", "4"), "metadata": {"name": name, "namespace": "d"}} for name in ("v", "w")]
    cluster = Cluster.from_objects([*nodes, *running, *waiting])
    alone = find_room(cluster, ["d/v", "d/w"])
    assert (alone.fits, len(alone.moves)) == (True, 4)
    assert find_room(cluster, ["d/v", "d/w"], workers=Workers(dask=address)) == alone


def test_runs(address: str) -> None:
    cluster = Cluster.from_objects([build_node("n1", "a"), build_node("n2", "b")])
    manifest = build_workload("Deployment", spec={"replicas": 3})
    there = simulate(cluster, [manifest], runs=6, workers=Workers(dask=address))
    assert there.to_dict() == simulate(cluster, [manifest], runs=6).to_dict()


def test_several_runs(address: str) -> None:
    """Drains, capacity and scenarios give the same bytes as in this process."""
    cluster, there = Cluster.from_objects(build_random_cluster(Random(4))), Workers(dask=address)
    assert (
        drain_nodes(cluster, ["n1", "n2"], runs=4, workers=there).to_dict()
        == drain_nodes(cluster, ["n1", "n2"], runs=4).to_dict()
    )
    shape = build_workload("Deployment", "other")
    assert capacity(cluster, [shape], runs=4, workers=there).to_dict() == capacity(cluster, [shape], runs=4).to_dict()
    files = {"web.yaml": [shape]}
    steps = {"steps": [{"apply": {"files": ["web.yaml"]}}, {"fail": {"zone": "a"}}]}
    found = [whatif(cluster, steps, read=files.__getitem__, runs=4, workers=w).to_dict() for w in (there, Workers(2))]
    assert found == 2 * [whatif(cluster, steps, read=files.__getitem__, runs=4).to_dict()]


def test_missing_dask_scheduler() -> None:
    quickly = dask.config.set({"distributed.comm.timeouts.connect": "1s"})
    with quickly, pytest.raises(UsageError, match="cannot connect to the Dask scheduler"):
        simulate_failures(
            Cluster.from_objects(build_random_cluster(Random(3))), workers=Workers(dask="tcp://127.0.0.1:9")
        )


@contextmanager
def start_dask_scheduler() -> Iterator[tuple[str, Callable[[], None]]]:
    """Run a scheduler and one worker as processes, and yield its address and a function that kills it."""
    program = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    scheduler = subprocess.Popen([*program, "--no-dashboard"], stderr=subprocess.PIPE, text=True)
    assert scheduler.stderr is not None
    address = next(found[0] for line in scheduler.stderr if (found := re.search(r"tcp://127\.0\.0\.1:\d+", line)))
    program = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1"]
    worker = subprocess.Popen([*program, "--no-dashboard"], stderr=subprocess.DEVNULL)
    try:
        yield address, scheduler.kill
    finally:
        scheduler.kill()
        worker.kill()


def test_lost_dask_scheduler_is_an_unreachable_cluster() -> None:
    def wait(context: object, task: int) -> None:  # within: workers know nothing of this module
        time.sleep(30)

    with start_dask_scheduler() as (address, end):
        threading.Timer(2, end).start()
        with pytest.raises(ClusterError, match="the connection to the Dask scheduler was lost") as raised:
            run_tasks(wait, None, [1, 2, 3], Workers(dask=address))
    assert raised.value.exit_code == 3
    assert "\n" not in str(raised.value)


def test_several_clusters(address: str) -> None:
    clusters = {str(seed): Cluster.from_objects(build_random_cluster(Random(seed))) for seed in range(3)}

    def ask(cluster: Cluster, workers: Workers, progress: object) -> Failures:
        return simulate_failures(cluster, "node", workers=workers)

    found = ask_each_cluster(ask, lambda report: bool(report.safe), clusters, Workers(dask=address))
    assert {answer.cluster: answer.document for answer in found.answers} == {
        name: simulate_failures(cluster, "node") for name, cluster in clusters.items()
    }
