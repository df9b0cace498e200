"""Check that no expression hangs, fills the memory, or nests deeper than upstream allows."""

from __future__ import annotations

import sys
import time

import pytest

from kschedctl.cel.compilation.compiler import compile_expression
from kschedctl.cel.errors import AbortedError, CelError, CompileError


def build_nested_bindings(values, result):
    """Build ``cel.bind(s0, first, cel.bind(s1, …, result))``."""
    return "".join(f"cel.bind(s{i}, {value}, " for i, value in enumerate(values)) + result + ")" * len(values)


def build_doubling_bindings(first, twice, count, result):
    return build_nested_bindings([first, *(twice.replace("s", f"s{i}") for i in range(count))], result)


ACCEPTED = {
    "249 parentheses": "(" * 249 + "true" + ")" * 249,
    "a chain of 249": "+".join(["1"] * 249) + " == 249",
    "1,400 terms": " || ".join(["false"] * 1400) + " || true",
    "60 lists": "[" * 60 + "]" * 60 + " != [[]]",
    "10,000 times not": "!" * 10_000 + "true",
    "240 comprehensions": "".join(f"[1].all(x{i}, " for i in range(240)) + "true" + ")" * 240,
    "240 names": build_nested_bindings(["1"] * 240, "true"),
    "a text of 2^22": build_doubling_bindings('"x"', "s + s", 22, "s22.size() == 4194304"),
    "replacements one after another": '"a"' + '.replace("a", "aaaaaaaaaa")' * 7 + ".size() == 10000000",
    "lists within lists": build_nested_bindings(["[1]", *(f"[s{i}]" for i in range(200))], "s200 == s200"),
}
REFUSED = {
    "250 parentheses": ("(" * 250 + "true" + ")" * 250, "expression recursion limit exceeded: 250"),
    "a chain of 300": ("+".join(["1"] * 300) + " == 300", "max recursion depth exceeded"),
    "a chain of selections": ("x" + ".a" * 300, "max recursion depth exceeded"),
    "types that double": (build_doubling_bindings("{1: 1}", "{s: s}", 40, "true"), "too large"),
    "numbers without end": ("9" * 5000 + " == 1", "invalid int literal"),
    "quotes": ('"' * 9999, "Syntax error"),
    "patterns that explode": ('"a".matches("((a{100}){100}){100}")', "invalid matches argument"),
}
STOPPED = {
    "a text that doubles": build_doubling_bindings('"x"', "s + s", 60, "s60.size() > 0"),
    "a list that doubles": build_doubling_bindings("[1]", "s + s", 60, "s60.size() > 0"),
    "values compared that double": build_doubling_bindings("[1]", "[s, s]", 40, "s40 == s40"),
    "values printed that double": build_doubling_bindings("[1]", "[s, s]", 40, '"%s".format([s40]) == ""'),
    "values sought that double": build_doubling_bindings("[1]", "[s, s]", 40, "s40.indexOf(s39) == 1"),
    "values flattened that double": build_doubling_bindings("[1]", "[s, s]", 40, "dyn(s40).flatten(100).size() > 0"),
    "comprehensions within comprehensions": "".join(f"lists.range(1000).map(x{i}, " for i in range(5)) + "1" + ")" * 5,
    "replacements": '"a"' + '.replace("a", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")' * 30,
    "texts from one text": build_nested_bindings(
        ['"' + "b" * 3000 + '"', 's0.replace("b", s0)'], f"[{', '.join(['s1 + s0'] * 400)}]"
    ),
    "places of a number": '"%.99999999f".format([1.0])',
    "a range": "lists.range(9000000000)",
}


def parametrize_cases(cases):
    return pytest.mark.parametrize("case", cases.values(), ids=cases)


@pytest.fixture(autouse=True)
def _soon():
    started = time.process_time()
    yield
    assert time.process_time() - started < 20


@parametrize_cases(ACCEPTED)
def test_accepted(case):
    assert compile_expression(case, {}, {}).evaluate() is True


@parametrize_cases(REFUSED)
def test_refused(case):
    expression, message = case
    with pytest.raises(CompileError) as caught:
        compile_expression(expression, {}, {})
    assert message in str(caught.value)


@parametrize_cases(STOPPED)
def test_stopped(case):
    with pytest.raises(AbortedError, match="cost limit exceeded"):
        compile_expression(case, {}, {}).evaluate()


@pytest.mark.parametrize("text", ['"\ud800".matches("a")', 'bytes("\ud800") == b""', '"\ud800".find("a") == ""'])
def test_invalid_unicode_is_an_error(text):
    with pytest.raises((CompileError, CelError)):
        compile_expression(text, {}, {}).evaluate()


def test_recursion_limit_is_restored_after_an_evaluation():
    before = sys.getrecursionlimit()
    compile_expression(ACCEPTED["240 names"], {}, {}).evaluate()
    assert sys.getrecursionlimit() == before
