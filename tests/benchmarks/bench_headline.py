"""Measure CPU time and memory of a simulation of a million pods on 130,000 nodes.

    python tests/benchmarks/bench_headline.py [--nodes 130000] [--pods 1000000] [--plain]

20 templates share out the pods: twelve of nobody (60 %), six Deployments, which spread by default (30 %), and two of
which no two pods may share a node (10 %). One line is printed; ``--plain`` leaves out all but the first twelve.
"""

from __future__ import annotations

import argparse
from time import process_time

from bench_simulate import Json, build_anti_affinity, build_deployment, build_node, build_pod
from peak_memory import get_peak_mebibytes

from kschedctl.api.arrays import Position
from kschedctl.cluster import Cluster
from kschedctl.commands.simulate import prepare_simulation
from kschedctl.scheduler.simulation.simulation import Simulation

PLAIN, SPREAD, APART = 12, 6, 2


def build_templates() -> list[Json]:
    """Build the first pod of each template, bare or in a Deployment with one replica."""
    specs = [build_deployment("plain", 1, 100 + i)["spec"]["template"]["spec"] for i in range(PLAIN)]
    plain = [build_pod(f"plain-{i}", {"app": f"plain-{i}"}, spec) for i, spec in enumerate(specs)]
    spread = [build_deployment(f"spread-{i}", 1, 100 + i) for i in range(SPREAD)]
    return [
        *plain,
        *spread,
        *(build_deployment(f"apart-{i}", 1, 100, **build_anti_affinity(f"apart-{i}")) for i in range(APART)),
    ]


def measure_headline(nodes: int, pods: int, *, plain: bool) -> str:
    """Place the pods of all templates and return the line to print."""
    begin = process_time()
    shared = prepare_simulation(Cluster.from_objects([build_node(i) for i in range(nodes)]), build_templates())
    simulation = Simulation(shared.scheduler)
    view, each = simulation.view, pods // (PLAIN + SPREAD + APART)
    positions: list[Position] = []
    for key in list(shared.workload_by_pod)[: PLAIN if plain else None]:
        first = view.pods.index[key]
        positions += [first, *view.add_clones(first, each - 1)]
    ready = process_time()
    outcomes = simulation.run(positions)
    seconds = process_time() - ready
    placed = sum(outcome.row >= 0 for outcome in outcomes)
    peak = get_peak_mebibytes()
    return (
        f"{placed:,} of {len(positions):,} pods placed on {nodes:,} nodes in {seconds:.0f} s of CPU time "
        f"({len(positions) / seconds:,.0f} pods/s), after {ready - begin:.0f} s to set up; at most {peak:,.0f} MiB"
    )


def main() -> None:
    """Print the headline number for a given size of the cluster."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=130_000)
    parser.add_argument("--pods", type=int, default=1_000_000)
    parser.add_argument("--plain", action="store_true", help="only the templates of nobody")
    arguments = parser.parse_args()
    print(measure_headline(arguments.nodes, arguments.pods, plain=arguments.plain))


if __name__ == "__main__":
    main()
