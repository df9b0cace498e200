"""Feed every command with wrong input, in process: ``python tests/fuzz/fuzz.py --count 20000 --seed 1``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from corpus import COMMANDS, TESTS, Input, make
from driving import Result, run_all

from kschedctl.cli.main import main as kschedctl


def build_sound_snapshot() -> bytes:
    """Build a snapshot of the demo cluster."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "demo.ksched"
        kschedctl(["snapshot", "save", "--demo", "-q", "-o", str(path)])
        return path.read_bytes()


def keep(folder: Path, number: int, given: Input) -> None:
    """Write an input into a folder, named after its number, for inspection."""
    place = folder / str(number)
    place.mkdir(parents=True, exist_ok=True)
    for name, data in given.files.items():
        (place / name).write_bytes(data)
    (place / "stdin").write_bytes(given.stdin)
    (place / "arguments").write_text(repr(given.arguments))


def fuzz_inputs(seed: str, numbers: Sequence[int], folder: Path | None = None, command: str = "") -> list[Result]:
    """Run these inputs. Faults are printed at once and kept in the folder."""
    snapshot = build_sound_snapshot()
    results = []
    for result in run_all(seed, numbers, snapshot, command):
        results.append(result)
        if result.fault:
            given = make(f"{seed}:{result.number}", snapshot, command)
            print(f"{seed}:{result.number} {given.arguments[:12]}: {result.fault}", flush=True)
            if folder:
                keep(folder, result.number, given)
    return results


def main() -> int:
    """Run the inputs that the command line selects, print a summary, and return 1 if there are faults."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--only", type=int, help="one input alone")
    parser.add_argument("--command", default="", choices=["", *COMMANDS], help="this alone")
    parser.add_argument("--keep", type=Path, help="a folder for the faulty inputs")
    given = parser.parse_args()
    numbers = range(given.start, given.start + given.count) if given.only is None else [given.only]
    began = monotonic()
    results = fuzz_inputs(given.seed, numbers, given.keep, given.command)
    if given.only is not None and given.keep:
        keep(given.keep, given.only, make(f"{given.seed}:{given.only}", build_sound_snapshot(), given.command))
    slowest, largest = max(results, key=lambda r: r.seconds), max(results, key=lambda r: r.memory)
    codes = ", ".join(f"{code}: {number}" for code, number in sorted(Counter(r.code for r in results).items()))
    print(f"{len(results)} inputs in {monotonic() - began:.0f} s; exit codes {codes}")
    print(f"slowest {slowest.seconds:.1f} s (number {slowest.number})", end=", ")
    print(f"largest {largest.memory >> 20} MiB (number {largest.number})")
    faults = sum(bool(result.fault) for result in results)
    print(f"{faults} faults")
    return int(faults > 0)


if __name__ == "__main__":
    sys.path.insert(0, str(TESTS))
    sys.exit(main())
