"""Check that reading takes time linear in the size of the text, whatever the text is."""

from __future__ import annotations

import json
from pathlib import Path
from time import process_time

import pytest

from kschedctl.cli.main import main
from kschedctl.errors import InputError
from kschedctl.sources.documents.positions import load_objects

SIZE = 1 << 20
SECONDS = 15  # for a mebibyte; backtracking takes centuries, a quadratic scan some ten minutes
BANNER = "".join(f"# line {i} # of a banner #\n" for i in range(28)) + "kind: Pod\nmetadata: {name: a}\n"

PATTERNS = {
    "hashes": "#",
    "lines of hashes": "# #\n",
    "spaces": " ",
    "empty lines": "\n",
    "lines of spaces": "   \n",
    "markers": "---\n",
    "markers with comments": "--- # a # b\n",
    "ends": "...\n",
    "dots": ".",
    "percents": "%",
    "directives": "%a\n",
    "double quotes": '"',
    "single quotes": "'",
    "escapes": '"\\',
    "anchors": "&a ",
    "lines of anchors": "- &a 1\n",
    "aliases": "*a ",
    "brackets": "[",
    "braces": "{",
    "JSON objects": "{}",
    "JSON lines": '{"a":1}\n',
    "dashes": "- ",
    "question marks": "? ",
    "keys": "a: b\n",
    "merges": "<<: {}\n",
    "digits": "0",
    "digits in lines": "- 0_0_0_0_0_0_0_0!\n",
    "bars": "|\n",
    "carriage returns": "\r",
    "commas": ",",
    "backslashes": "\\",
}


@pytest.mark.parametrize("head", ["", "a: "])
@pytest.mark.parametrize("name", PATTERNS)
def test_repetitive_text_of_a_mebibyte(name: str, head: str, tmp_path: Path) -> None:
    pattern = PATTERNS[name]
    file = tmp_path / "m.yaml"
    file.write_text(head + pattern * (SIZE // len(pattern)))
    began = process_time()
    try:
        found = list(load_objects(str(file)))
        if found:
            found[-1].locate(("a",))
    except InputError:
        pass
    assert process_time() - began < SECONDS


@pytest.mark.parametrize("command", [("lint",), ("config", "check")], ids=" ".join)
@pytest.mark.parametrize(
    "name", ["hashes", "spaces", "markers", "ends", "percents", "double quotes", "anchors", "keys"]
)
def test_commands_end_with_such_texts(name: str, command: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(PATTERNS[name] * (SIZE // len(PATTERNS[name])))
    began = process_time()
    assert main([*command, str(file), "-q"]) in (0, 1, 2)
    assert process_time() - began < SECONDS


@pytest.mark.parametrize("line", ["\n", " \n", "# a\n"])
def test_broken_text_after_many_lines(line: str, tmp_path: Path) -> None:
    """All lines are searched for signs that the text was meant as a manifest."""
    file = tmp_path / "m.yaml"
    file.write_text("[" + line * (SIZE // len(line)))
    began = process_time()
    assert main(["lint", str(file), "-q"]) == 2
    assert process_time() - began < SECONDS


ALIKE = """\
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web%d}
spec: {minAvailable: 50%%, selector: {matchLabels: {app: web}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web%d}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}
      containers: [{name: c, image: a}]
"""


def test_many_objects_that_select_each_other(tmp_path: Path) -> None:
    """A thousand budgets and workloads with the same labels are a million pairs."""
    file = tmp_path / "m.yaml"
    file.write_text("".join(ALIKE % (i, i) for i in range(1000)))
    began = process_time()
    assert main(["lint", str(file), "-o", "json"]) == 1
    assert process_time() - began < SECONDS


def test_many_variants_of_one_object(tmp_path: Path) -> None:
    """A file has a thousand objects of one name with a budget each, as from a chart rendered a thousand times."""
    file = tmp_path / "m.yaml"
    file.write_text("".join(ALIKE % (0, 0) for _ in range(1000)))
    began = process_time()
    assert main(["lint", str(file), "-o", "json"]) == 1
    assert process_time() - began < SECONDS


def test_many_findings_on_one_line(tmp_path: Path) -> None:
    """The JSON has no line ends. Positions must not be counted from the beginning each time."""
    containers = [{"name": f"c{i}", "image": "a", "resources": {"requests": {"cpu": "x"}}} for i in range(8000)]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": containers}}
    file = tmp_path / "m.json"
    file.write_text(json.dumps(pod))
    began = process_time()
    assert main(["lint", str(file), "-o", "json"]) == 1
    assert process_time() - began < SECONDS


def test_banner_of_comments(tmp_path: Path) -> None:
    """For a pattern that tries both, each line could be one comment or two."""
    file = tmp_path / "m.yaml"
    file.write_text(f"{BANNER}---\n{BANNER}")
    assert [manifest.locate(("kind",))[0] for manifest in load_objects(str(file))] == [29, 60]


def test_aliases_are_limited(tmp_path: Path) -> None:
    """The 447 bytes stand for 9**9 values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    file = tmp_path / "m.yaml"
    file.write_text("\n".join(lines))
    with pytest.raises(InputError, match="line 6: document contains excessive aliasing"):
        list(load_objects(str(file)))
