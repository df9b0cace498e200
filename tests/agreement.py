"""Count the golden cases, by family and version, in which kschedctl agrees with kube-scheduler.

``python tests/agreement.py [FOLDER]`` runs the cases of ``tests/golden``, or of another folder of that form, and prints
the table of ``kschedctl help versions``; exits with 1 when a case differs.
"""

from __future__ import annotations

import json
import lzma
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

from golden_cases import FOLDER, answer, list_differences

from kschedctl.api.kube_version import KUBE_VERSION

FEATURES = {
    "Resources": ("basic-resources", "quantity", "podres", "resize"),
    "Node affinity and node names": ("nodeaffinity", "nodename", "labelops"),
    "Pod affinity": ("podaffinity", "affmix", "namespaceselector"),
    "Spread constraints": ("topologyspread", "spreadmix"),
    "Taints and cordons": ("taints", "tolerate", "unschedulable"),
    "Host ports and images": ("nodeports", "imagelocality", "portsimages"),
    "Volumes": ("volumes", "volmix", "csimigration"),
    "Devices (DRA)": (
        *("dra", "draadv", "draerr", "draexp", "draext", "drastable", "cel", "celsingle", "nodealloc", "nodealloc2"),
    ),
    "Preemption": ("preemption", "nominate", "dryrunerror"),
    "Scores": ("scoring", "weights"),
    "Scheduler configuration": ("config", "confignegative", "confignegative2"),
    "Feature gates and declared features": ("gates", "gatemix", "declaredfeatures"),
    "Several features at once": ("mixed", "edge"),
}
"""Area -> the families of cases that test it."""
ID = re.compile(r"(?P<family>[a-z-]+?)-\d")
Table = dict[str, dict[str, Counter[bool]]]
"""Family -> version -> how many cases agree and how many do not."""


def count_agreement(folder: Path) -> Table:
    """Count the cases in which kschedctl agrees and differs, by family and version.

    Cases in a family file are of the newest version, and cases in ``versions/1.NN`` of that version.
    """
    found: Table = defaultdict(lambda: defaultdict(Counter))
    for path in [*sorted(folder.glob("versions/*.jsonl.xz")), *sorted(folder.glob("*.jsonl.xz"))]:
        name = path.name.removesuffix(".jsonl.xz")
        older = path.parent != folder
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                case = json.loads(line)
                named = ID.match(case["id"]) if older else None
                agrees = not list_differences(case["want"], answer(case))
                found[named["family"] if named else name][name if older else KUBE_VERSION][agrees] += 1
    return found


def build_markdown_table(found: Table) -> str:
    """Return a table with a row per feature and a column per version. Families of no feature have rows of their own.

    A cell is ``12`` if all 12 cases agree, ``11 of 12`` if one differs, and ``–`` if there are no cases.
    """
    found = _group_by_feature(found)
    versions = sorted({version for counts in found.values() for version in counts}, reverse=True)
    rows = [["Area", *versions], ["---", *("--:" for _ in versions)]]
    rows += [[family, *(_format_counts(found[family].get(each)) for each in versions)] for family in found]
    sums = {each: sum((counts[each] for counts in found.values() if each in counts), Counter()) for each in versions}
    rows.append(["**all**", *(_format_counts(sums[each]) for each in versions)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _group_by_feature(found: Table) -> Table:
    """Add up the counts of the families of each feature, in the order of FEATURES."""
    feature_by_family = {family: feature for feature, families in FEATURES.items() for family in families}
    grouped: Table = {feature: defaultdict(Counter) for feature, families in FEATURES.items() if {*families} & {*found}}
    for family in sorted(found):
        counts_by_version = grouped.setdefault(feature_by_family.get(family, family), defaultdict(Counter))
        for version, counts in found[family].items():
            counts_by_version[version] += counts
    return grouped


def _format_counts(counts: Counter[bool] | None) -> str:
    """Format the counts of a family and version."""
    if not counts:
        return "–"
    return f"{counts[True]:,} of {counts.total():,}" if counts[False] else f"{counts.total():,}"


if __name__ == "__main__":
    table = count_agreement(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
    print(build_markdown_table(table))
    sys.exit(any(counts[False] for versions in table.values() for counts in versions.values()))
