"""Measure CPU time and peak memory of loading a cluster from JSON, relative to json.load and a typed decoder.

    python tests/benchmarks/bench_loading.py [folder] [--nodes 500] [--pods 15000] [--repeat 3]

The folder is one that make_cluster.py wrote; without it one of so many nodes and pods is made. Each measurement is a
process of its own, of which the imports are not counted; ratios are of the medians of one run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from peak_memory import print_peak_memory

from tests.benchmarks.make_cluster import write_cluster

MEASURED = """
import resource, sys, time
from pathlib import Path
{imports}
files = sorted(Path(sys.argv[1]).glob("*.json"))
start = time.process_time()
{statement}
print(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
WAYS = {
    "kschedctl": (
        "from kschedctl.sources.cluster import Cluster; import kschedctl.sources.read",
        "cluster = Cluster.from_paths([sys.argv[1]])",
    ),
    "json.load": ("import json", "kept = [json.loads(file.read_bytes()) for file in files]"),
    "typed decoder": (
        "import gc, msgspec; from kschedctl.api.kinds import KINDS; gc.disable()\n"
        "kinds = {f'{kind.lower()}{s}': kind for kind in KINDS for s in ('s', 'es')}",
        "kept = [msgspec.json.decode(file.read_bytes(), type=msgspec.defstruct('List', [('items', "
        "list[KINDS[kinds[file.stem]].struct])])) for file in files if file.stem in kinds]",
    ),
}
"""Name -> the code that is run before, and the measured code. The decoder decodes whole files to read structs."""


def measure_loading(way: str, folder: Path) -> tuple[float, float]:
    """Return the CPU seconds and MiB of one way to load the folder."""
    imports, statement = WAYS[way]
    program = MEASURED.format(imports=imports, statement=statement)
    run = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True)
    seconds, memory = map(float, run.stdout.split())
    return seconds, memory


def main() -> None:
    """Compare ways to load a cluster."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=15_000)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.folder or Path(made)
        if arguments.folder is None:
            write_cluster(folder, arguments.nodes, arguments.pods)
        runs = [{way: measure_loading(way, folder) for way in WAYS} for _ in range(arguments.repeat)]
    seconds = {way: median(run[way][0] for run in runs) for way in WAYS}
    for way in WAYS:
        memory = median(run[way][1] for run in runs)
        ratio = seconds["kschedctl"] / seconds[way]
        print(f"{way:16} {seconds[way]:7.2f} s cpu  {memory:7.0f} MiB   kschedctl takes {ratio:5.2f} of it")


if __name__ == "__main__":
    main()
    print_peak_memory()
