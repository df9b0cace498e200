"""Compare whole cases with kube-scheduler: every part of the answer, in every family."""

from __future__ import annotations

import json

import pytest
from golden_cases import FAMILIES, VERSIONS, answer, iter_family_lines, list_differences

SHARES = 10
LINES_SHOWN = 12


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("family", [*FAMILIES, *VERSIONS])
def test_family(family: str, share: int) -> None:
    cases = [json.loads(line) for line in iter_family_lines(family)[share::SHARES]]
    wrong = {}
    for case in cases:
        found = list_differences(case["want"], answer(case))
        if found:
            wrong[f"{case['id']} pod {case['pod']}"] = found
    if wrong:
        texts = (f"{case}\n    " + "\n    ".join(found[:LINES_SHOWN]) for case, found in wrong.items())
        pytest.fail(f"{len(wrong)} of {len(cases)} cases differ\n" + "\n".join(texts), pytrace=False)
