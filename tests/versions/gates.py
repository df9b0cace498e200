"""Add the gates that a version of Kubernetes changed to the tables: ``python tests/versions/gates.py 1.37 FACTS...``.

FACTS is upstream's kube_features.go, or lines such as ``StorageCapacityScoring beta on``. A new gate
goes to UNREAD_GATE_STAGES; if scheduling reads the gate, move its line to GATE_STAGES.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from kschedctl.scheduler.framework.feature_gates import ALL_GATE_STAGES, find_gate_stage

FRAMEWORK = Path(__file__).parents[2] / "kschedctl/scheduler/framework"
_GATE = re.compile(r"^\s*(?:\w+\.)?([A-Z]\w+): \{\s*$")
_STAGE = re.compile(r'\{Version: version\.MustParse\("1\.(\d+)"\)(.*?)\}')


def parse_stages(text: str, minor: int) -> dict[str, str]:
    """Return the stage of each gate in a minor version, in the notation of GATE_STAGES."""
    if "MustParse" in text:
        return _parse_go_source(text, minor)
    lines = (line.split("#")[0].split() for line in text.splitlines())
    return {gate: " ".join(stage) for gate, *stage in filter(None, lines)}


def _parse_go_source(text: str, minor: int) -> dict[str, str]:
    """Return the stage of each gate in a minor version from Go source code."""
    found: dict[str, str] = {}
    gate = ""
    for line in text.splitlines():
        if named := _GATE.match(line):
            gate = named[1]
        for since, rest in _STAGE.findall(line):
            if int(since) <= minor:
                found[gate] = _format_stage(rest)
    return found


def _format_stage(fields: str) -> str:
    """Return the notation of a stage from the fields of its Go struct."""
    maturity = re.search(r"featuregate\.(\w+)", fields)
    assert maturity, fields
    words = [maturity[1] if maturity[1] == "GA" else maturity[1].lower()]
    on = "Default: true" in fields
    words += ["on"] * (on and words != ["GA"]) + ["locked"] * ("LockToDefault: true" in fields)
    return " ".join(words)


def changes(facts: Mapping[str, str], minor: int) -> dict[str, str]:
    """Return the stages to add for gates that differ from our tables in this version."""
    found = {}
    for gate, stage in facts.items():
        said = find_gate_stage(ALL_GATE_STAGES.get(gate, f"1.{minor} removed"), minor)
        wanted = find_gate_stage(f"1.{minor} {stage}", minor)
        if said != wanted and (said.known or wanted.known):
            found[gate] = f"1.{minor} {stage}"
    return found


def add_stages(table: str, added: Mapping[str, str]) -> tuple[str, set[str]]:
    """Return the text of a table with these stages added to its gates, and the set of gates that it contains."""
    there = {gate for gate in added if f'    "{gate}": "' in table}
    for gate in there:
        table = re.sub(rf'(    "{gate}": "[^"]+)"', rf'\1, {added[gate]}"', table, count=1)
    return table, there


def add_new_gates(table: str, added: Mapping[str, str]) -> str:
    """Return the text of UNREAD_GATE_STAGES with lines for these gates, in alphabetical order."""
    start, end = table.index("UNREAD_GATE_STAGES: "), table.index("\n}\n")
    head, *lines = table[start:end].split("\n")
    lines = sorted([*lines, *(f'    "{gate}": "{stage}",' for gate, stage in added.items())])
    return table[:start] + "\n".join((head, *lines)) + table[end:]


def write(facts: Mapping[str, str], minor: int) -> dict[str, str]:
    """Add the changes to the tables of both files, and return the stages that were added."""
    added = changes(facts, minor)
    unread, specs = FRAMEWORK / "unread_gates.py", FRAMEWORK / "feature_gates.py"
    text, there = add_stages(specs.read_text(), added)
    specs.write_text(text)
    text, also = add_stages(unread.read_text(), {gate: stage for gate, stage in added.items() if gate not in there})
    new = {gate: stage for gate, stage in added.items() if gate not in there | also and "removed" not in stage}
    unread.write_text(add_new_gates(text, new))
    return added


def main(version: str, files: Iterable[str]) -> None:
    """Add the changes of a version from the files to our tables, and print them."""
    minor = int(version.removeprefix("1."))
    for file in files:
        for gate, stage in write(parse_stages(Path(file).read_text(), minor), minor).items():
            print(gate, stage)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
