"""Check that scores of an extender are Go's int64."""

from __future__ import annotations

import pytest

from kschedctl.scheduler.engine.extenders import ExtenderError, parse_host_priorities


@pytest.mark.parametrize("score", [-(2**63), 0, 2**63 - 1])
def test_the_least_and_the_most_are_read(score: int) -> None:
    assert parse_host_priorities([{"Host": "a", "Score": score}]) == [("a", score)]


@pytest.mark.parametrize("score", [-(2**63) - 1, 2**63])
def test_what_is_beyond_cannot_be_decoded(score: int) -> None:
    with pytest.raises(ExtenderError) as failure:
        parse_host_priorities([{"Host": "a", "Score": score}])
    assert f"json: cannot unmarshal number {score} into" in str(failure.value)
