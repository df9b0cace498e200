"""Reading ends, in a time that grows with the text alone, whatever the text is."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest

from kschedctl.errors import InputError
from kschedctl.sources.documents.positions import read_manifests

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
def test_a_mebibyte_of_the_same(name: str, head: str, tmp_path: Path) -> None:
    pattern = PATTERNS[name]
    file = tmp_path / "m.yaml"
    file.write_text(head + pattern * (SIZE // len(pattern)))
    began = process_time()
    try:
        found = list(read_manifests(str(file)))
        if found:
            found[-1].locate(("a",))
    except InputError:
        pass
    assert process_time() - began < SECONDS


def test_a_banner_of_comments_is_nothing(tmp_path: Path) -> None:
    """Each line of it could be one comment or two to a pattern that tries both."""
    file = tmp_path / "m.yaml"
    file.write_text(f"{BANNER}---\n{BANNER}")
    assert [manifest.locate(("kind",))[0] for manifest in read_manifests(str(file))] == [29, 60]


def test_aliases_are_bounded(tmp_path: Path) -> None:
    """447 bytes that stand for 9**9 values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    file = tmp_path / "m.yaml"
    file.write_text("\n".join(lines))
    with pytest.raises(InputError, match="line 6: document contains excessive aliasing"):
        list(read_manifests(str(file)))
