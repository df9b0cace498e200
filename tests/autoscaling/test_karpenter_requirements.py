"""Check the algebra of label requirements against explicit sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kschedctl.autoscaling.karpenter.labels import WELL_KNOWN, ZONE
from kschedctl.autoscaling.karpenter.requirements import LabelRequirement, Requirements

UNIVERSE = ("", "a", "b", "1", "2", "3", "10", "+2", "x1", "-5", "007")
"""Some values, and one that no requirement names, which stands for all others."""
VALUES = st.lists(st.sampled_from(UNIVERSE[1:]), max_size=4)
NUMBERS = st.sampled_from(("1", "2", "3", "10"))
REQUIREMENTS = st.one_of(
    st.builds(LabelRequirement.from_operator, st.just("k"), st.sampled_from(("In", "NotIn")), VALUES),
    st.builds(LabelRequirement.from_operator, st.just("k"), st.sampled_from(("Exists", "DoesNotExist"))),
    st.builds(
        LabelRequirement.from_operator, st.just("k"), st.sampled_from(("Gt", "Lt", "Gte", "Lte")), st.tuples(NUMBERS)
    ),
)


def list_allowed_values(requirement: LabelRequirement) -> set[str]:
    return {value for value in UNIVERSE if requirement.allows_value(value)}


@given(REQUIREMENTS, REQUIREMENTS)
def test_intersection_allows_what_both_allow(a: LabelRequirement, b: LabelRequirement) -> None:
    both = a.intersection(b)
    assert list_allowed_values(both) == list_allowed_values(a) & list_allowed_values(b)
    assert list_allowed_values(b.intersection(a)) == list_allowed_values(both)
    if list_allowed_values(both):
        assert a.intersects(b)
    elif not both.complement:  # else something that is not in this universe is allowed
        assert not a.intersects(b)


def test_bounds_count_whole_numbers() -> None:
    """More than 2 means 3 or more. A value that is not a number is outside all bounds."""
    over = LabelRequirement.from_operator("k", "Gt", ("2",))
    assert [over.allows_value(value) for value in ("2", "3", "x", "+3", "")] == [False, True, False, True, False]
    assert str(over) == "k Exists >=3"
    assert str(over.intersection(LabelRequirement.from_operator("k", "Lt", ("3",)))) == "k DoesNotExist"
    assert [
        term[:3] for term in over.intersection(LabelRequirement.from_operator("k", "Lte", ("8",))).to_selector_terms()
    ] == [
        ("k", "Gte", ("3",)),
        ("k", "Lte", ("8",)),
    ]


def test_at_most_five_values_are_shown() -> None:
    assert str(LabelRequirement.from_operator("k", "In", "gfedcba")) == "k In [a b c d e and 2 others]"


def test_undefined_label() -> None:
    """A custom label that the node lacks conflicts with In, but not with NotIn.

    An undefined well-known label conflicts with neither, and it is suggested for a misspelled one.
    """
    node = Requirements.from_labels({"team": "red"})
    wanted = Requirements.from_list([LabelRequirement.from_operator("zone", "In", ("a",))])
    assert node.describe_conflict(wanted) == 'label "zone" does not have known values'
    assert node.describe_conflict(wanted, WELL_KNOWN).endswith(f'(typo of "{ZONE}"?)')
    assert not node.describe_conflict(Requirements.from_list([LabelRequirement.from_operator("zone", "NotIn", ("a",))]))
    assert not node.describe_conflict(
        Requirements.from_list([LabelRequirement.from_operator(ZONE, "In", ("a",))]), WELL_KNOWN
    )
    assert (
        node.describe_conflict(Requirements.from_labels({"team": "blue"}))
        == "key team, team In [blue] not in team In [red]"
    )


def test_old_label_names_mean_the_new_ones() -> None:
    assert LabelRequirement.from_operator("failure-domain.beta.kubernetes.io/zone", "In", ("a",)).key == ZONE
