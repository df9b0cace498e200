"""Check whether label requirements are satisfiable, compared with trying every possible node."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from kschedctl.api.node_selector import compile_required_node_affinity
from kschedctl.api.objects import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, PodSpec, SelectorRequirement
from kschedctl.lint.analysis.node_requirements import list_node_condition_alternatives

VALUES = ("0", "1", "2", "3", "4", "00", "01", "02", "03", "x", None)
"""The values of a node label that the requirements below can distinguish. None stands for a missing label."""

operators: st.SearchStrategy[tuple[str, list[str]]] = st.one_of(
    st.tuples(
        st.sampled_from(["In", "NotIn"]), st.lists(st.sampled_from(["1", "2", "3", "x"]), min_size=1, max_size=3)
    ),
    st.tuples(st.sampled_from(["Gt", "Lt"]), st.sampled_from([["0"], ["1"], ["2"], ["3"]])),
    st.tuples(st.sampled_from(["Exists", "DoesNotExist"]), st.just([])),
)
requirements = st.builds(
    lambda key, found: SelectorRequirement(key, found[0], tuple(found[1]) or None), st.sampled_from("ab"), operators
)
terms = st.lists(st.lists(requirements, min_size=1, max_size=4), min_size=1, max_size=2)


@given(st.dictionaries(st.sampled_from("ab"), st.sampled_from(["1", "x"]), max_size=1), terms)
def test_contradictory_requirements_are_met_by_no_node(
    selector: dict[str, str], found: list[list[SelectorRequirement]]
) -> None:
    node_selector = NodeSelector(tuple(NodeSelectorTerm(tuple(term)) for term in found))
    spec = PodSpec(node_selector=selector, affinity=Affinity(NodeAffinity(node_selector)))
    wanted = compile_required_node_affinity(spec)
    nodes = ({k: v for k, v in zip("ab", pair, strict=True) if v is not None} for pair in product(VALUES, repeat=2))
    possible = any(wanted.match(labels, "n") for labels in nodes)
    assert possible == any(not way.conditions.conflicts for way in list_node_condition_alternatives(spec))


def test_exclusion_leaves_other_spellings_of_the_only_integer_between_two_bounds() -> None:
    between = [SelectorRequirement("a", "Gt", ("3",)), SelectorRequirement("a", "Lt", ("5",))]
    term = NodeSelectorTerm((*between, SelectorRequirement("a", "NotIn", ("4",))))
    spec = PodSpec(affinity=Affinity(NodeAffinity(NodeSelector((term,)))))
    (way,) = list_node_condition_alternatives(spec)
    assert not way.conditions.conflicts
    node_affinity = compile_required_node_affinity(spec)
    assert node_affinity.match({"a": "04"}, "n")
    assert not node_affinity.match({"a": "4"}, "n")
