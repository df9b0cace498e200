"""Check that scores of an extender are Go's int64."""

from __future__ import annotations

import pytest

from kschedctl.scheduler.engine.extenders import ExtenderError, parse_host_priorities


@pytest.mark.parametrize("score", [-(2**63), 0, 2**63 - 1])
def test_smallest_and_largest_scores_are_read(score: int) -> None:
    assert parse_host_priorities([{"Host": "a", "Score": score}]) == [("a", score)]


@pytest.mark.parametrize("score", [-(2**63) - 1, 2**63])
def test_scores_beyond_int64_are_errors(score: int) -> None:
    with pytest.raises(ExtenderError) as failure:
        parse_host_priorities([{"Host": "a", "Score": score}])
    assert f"json: cannot unmarshal number {score} into" in str(failure.value)
