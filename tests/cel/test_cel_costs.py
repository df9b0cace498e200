"""Check the cost of expressions against upstream's own tests.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/cost_test.go (v1.36), those cases in which no list or map is
constant, which the API server's environment computes beforehand. What comprehensions cost is added up by hand.
"""

from __future__ import annotations

import pytest

from kschedctl.cel.compilation.compiler import compile_expression
from kschedctl.cel.errors import CostLimitError

COSTS = {
    "'ABCDEFGHIJ abcdefghij'.lowerAscii()": 3,
    "'ABCDEFGHIJ abcdefghij'.lowerAscii() == 'abcdefghij ABCDEFGHIJ'.lowerAscii()": 9,
    "strings.quote('ABCDEFGHIJ abcdefghij')": 3,
    "'abc 123 def 123'.replace('123', '456')": 3,
    "'abc 123 def 123'.split(' ', 1)": 3,
    "'abc 123 def 123'.substring(5, 8)": 2,
    "'  abc 123 def 123  '.trim()": 2,
    "'abc 123 def 123'.find('123')": 2,
    "'abc 123 def 123'.findAll('123', 1)": 2,
    'quantity("12Mi")': 1,
    'quantity("200M") == quantity("0.2G") && quantity("0.2G") == quantity("200M")': 6,
    'quantity("200M").compareTo(quantity("0.2G")) > 0': 4,
    'quantity("50k").add(20).sub(quantity("100k")).sub(-50000).asInteger() > 0': 7,
    'format.named("dns1123Label").value().validate("my-name")': 10,
    'format.named("dns1123Label").value() == format.named("dns1123Label").value()': 5,
    'semver("1234.56789012345.67890123456789")': 4,
    'semver("1.0.0").compareTo(semver("1.2.3"))': 3,
    # each of three: the condition 2, the step 1 for x, 1 for the result, 1 for the comparison; 1 for the result
    "[1, 2, 3].all(x, x > 0)": 3 * 5 + 1,
    # each of three: 1 for x, 1 for the sum, 10 for the list, 1 for the result, 1 for adding to it; 1 for the result
    "[1, 2, 3].map(x, x + 1)": 3 * 14 + 1,
    # 2 * 3² for the comparisons, 1 for the call, 10 for the list
    "[1, 2, 3].distinct()": 29,
    # 3 * 2 comparisons, 1 for the call
    "sets.contains([1, 2, 3], [1, 2])": 7,
}


@pytest.mark.parametrize("expression", COSTS)
def test_cost(expression):
    program = compile_expression(expression, {}, {})
    program.evaluate()
    assert program.cost == COSTS[expression]


def build_loop(depth):
    """Build a loop of ten to this power of steps, and return it with its cost.

    The cost is 2 for each condition, and 1 for each result that is read or returned.
    """
    return "".join(f"[0,1,2,3,4,5,6,7,8,9].all(x{i}, " for i in range(depth)) + "true" + ")" * depth


def test_hundred_thousand_steps_are_within_the_limit():
    program = compile_expression(build_loop(5), {}, {})
    assert program.evaluate() is True
    assert 300_000 < program.cost < 1_000_000


def test_million_steps_exceed_the_limit():
    with pytest.raises(CostLimitError, match="operation cancelled: actual cost limit exceeded"):
        compile_expression(build_loop(6), {}, {}).evaluate()


def test_no_operator_absorbs_the_limit():
    with pytest.raises(CostLimitError):
        compile_expression(f"{build_loop(6)} || true", {}, {}).evaluate()


def test_too_expensive_operation_is_not_started():
    with pytest.raises(CostLimitError):
        compile_expression("lists.range(999000).distinct().size() > 0", {}, {}).evaluate()
