"""Check that regular expressions have Go's syntax, and that matching without RE2 agrees with RE2."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

import kschedctl
from kschedctl.cel.errors import AbortedError, CelError
from kschedctl.cel.library import regular_expressions
from kschedctl.cel.library.regular_expressions import compile_simple_pattern
from kschedctl.scheduler.plugins.dynamic_resources.cel import compile_selector

CHARACTERS = st.sampled_from(
    [*"ab01-_. \n", "\u00e4", r"\d", r"\w", r"\s", r"\.", r"\\", ".", "[a-c]", "[^b]", r"[\d_]", "[-.]"]
)
REPEATED = st.builds(
    str.__add__, CHARACTERS, st.sampled_from(["", "", "*", "+", "?", "*?", "??", "{2}", "{1,3}", "{2,}"])
)
PATTERNS = st.recursive(
    st.one_of(REPEATED, st.sampled_from(["^", "$", r"\b", r"\A", r"\z"])),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.builds("({}){}".format, inner, st.sampled_from(["", "?"])),
        st.builds("(?:{}|{})".format, inner, inner),
    ),
    max_leaves=8,
)
TEXTS = st.text(alphabet="abc01-_. \n\u00e4\\", max_size=12)
WORDS = {
    "(a": "missing closing ): `(a`",
    "[a": "missing closing ]: `[a`",
    "a)": "unexpected ): `a)`",
    "*a": "missing argument to repetition operator: `*`",
    "a**": "invalid nested repetition operator: `**`",
    "a{2,1}": "invalid repeat count: `{2,1}`",
    "(?=a)": "invalid or unsupported Perl syntax: `(?=`",
    "\\": "trailing backslash at end of expression: ``",
}
"""Patterns and errors from Go's regexp/syntax/parse_test.go and ErrorCode."""


@pytest.fixture
def no_re2(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(regular_expressions, "has_re2", lambda: False)
    compile_selector.cache_clear()
    yield
    compile_selector.cache_clear()


@pytest.mark.parametrize(("pattern", "error"), WORDS.items())
def test_errors_are_worded_as_in_go(pattern: str, error: str) -> None:
    with pytest.raises(CelError) as raised:
        regular_expressions.matches("a", pattern)
    assert str(raised.value) == f"error parsing regexp: {error}"


@settings(max_examples=400, deadline=None)
@given(PATTERNS, TEXTS)
def test_simple_pattern_matches_as_in_re2(pattern: str, text: str) -> None:
    simple = compile_simple_pattern(pattern)
    if simple is None:
        return
    found, expected = simple.compiled.search(text), re2.compile(pattern).search(text)
    assert (found and found.span()) == (expected and expected.span())


@pytest.mark.parametrize(
    "pattern",
    ["^gpu-[a-z0-9]+$", r"a100|h100", r"^v(1|2)\.\d+$", r"NVIDIA.*80GB", "^(A100|H100)(-SXM4)?$", "[-_.a-z]*"],
)
def test_attributes_of_drivers_are_matched_without_re2(pattern: str) -> None:
    assert compile_simple_pattern(pattern) is not None


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|a)*", "(a?){30}", "(?i)a100", r"\pL", "(a", "a{2,1}", "[[:alpha:]]", "a*a*a*a*b", r"\Qa\E"],
)
def test_slow_or_ambiguous_patterns_need_re2(pattern: str) -> None:
    assert compile_simple_pattern(pattern) is None


def test_long_texts_need_re2(no_re2: None) -> None:
    assert regular_expressions.matches("a" * 60, "a*b|a")
    with pytest.raises(AbortedError, match=r"kschedctl\[re2\]"):
        regular_expressions.matches("a" * 100_000, "a*b")


def build_cluster_with_claim(selector: str) -> kschedctl.Cluster:
    device = {"name": "d0", "attributes": {"model": {"string": "A100"}}}
    request = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": selector}}]}
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    objects = [
        {
            "kind": "Node",
            "apiVersion": "v1",
            "metadata": {"name": "n"},
            "status": {"allocatable": {"cpu": "4", "pods": "9"}},
        },
        {"kind": "DeviceClass", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "gpu"}, "spec": {}},
        {
            "kind": "ResourceSlice",
            "apiVersion": "resource.k8s.io/v1",
            "metadata": {"name": "s"},
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": "n",
                "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
                "devices": [device],
            },
        },
        {
            "kind": "ResourceClaim",
            "apiVersion": "resource.k8s.io/v1",
            "metadata": {"name": "gpu", "namespace": "x"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": request}]}},
        },
        {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {"name": "p", "namespace": "x"},
            "spec": {"containers": [{"name": "c", "image": "i"}], "resourceClaims": claims},
        },
    ]
    return kschedctl.Cluster.from_objects(objects, assume_complete=True)


@pytest.mark.parametrize(("pattern", "undecided"), [("^A[0-9]+$", False), ("(?i)^a100$", True)])
def test_selector_that_needs_re2_leaves_the_answer_undecided(no_re2: None, pattern: str, undecided: bool) -> None:
    selector = f'device.attributes["gpu.example.com"].model.matches("{pattern}")'
    report = kschedctl.explain(build_cluster_with_claim(selector), "x/p")
    assert report.undecided is undecided
    assert (report.verdict == "Schedulable") is not undecided
    assert any("kschedctl[re2]" in unknown.why for unknown in report.unknown) is undecided
