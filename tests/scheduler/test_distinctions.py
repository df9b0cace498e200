"""Check that plugins give the same answer for a row alone as for all nodes, and for rows that share a key."""

from __future__ import annotations

from array import array
from random import Random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from test_simulation import draw_objects

from kschedctl.cluster import Cluster
from kschedctl.scheduler.engine.cycle import run_cycle
from kschedctl.scheduler.framework import offers
from kschedctl.scheduler.framework.distinctions import Distinction, DistinguishingFilter, DistinguishingScore
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.ranked_groups import RankedGroups, TiedRows, combine_columns
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import Domains
from kschedctl.snapshot.trail import Trail


def compute_codes(distinctions: list[Distinction], rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return codes (N,) that are equal for rows of which a plugin must have the same answer."""
    columns = [
        np.where(d.domains.present, d.get_domain_values(rows), -1) if d.domains.separates_nodes else d.domains.codes
        for d in distinctions
    ]
    return combine_columns(columns, len(rows))


def agree(answers: np.ndarray[Any, Any], apart: np.ndarray[Any, Any]) -> bool:
    return all(len(set(answers[apart == group].tolist())) == 1 for group in set(apart.tolist()))


@given(st.integers(0, 2**32 - 1))
def test_single_rows_get_the_answers_of_all_nodes(seed: int) -> None:
    random = Random(seed)
    documents, keys = draw_objects(random)
    scheduler = Scheduler(Cluster.from_objects(documents))
    view = scheduler.view.fork()
    framework = scheduler.find_framework("default-scheduler")
    assert framework is not None
    for key in keys[:6]:
        position = view.pods.index[key]
        cycle = run_cycle(framework, view.pods.infos[view.pods.info[position]], view)
        _compare(cycle, view)
        if len(cycle.feasible) and view.node[position] < 0:
            view.assume(position, random.choice(cycle.feasible.tolist()))


def _compare(cycle: Any, view: Fork) -> None:
    rows = view.nodes.rows
    for plugin in cycle.framework.plugins_at("filter"):
        before = cycle.pre_filter.results.get(plugin.name)
        if not offers(plugin, DistinguishingFilter) or before is None or before.status.rejected:
            continue
        verdicts = plugin.build_row_verdicts(cycle.info, view)
        assert verdicts is not None
        verdict = cycle.filter.verdicts.get(plugin.name)
        expected = np.zeros(len(rows), np.bool_) if verdict is None else verdict.rejected
        assert verdicts.mask_rejected_rows(rows).tolist() == expected.tolist()
        assert agree(expected, compute_codes(list(verdicts.distinctions), rows))
    scored, ones = cycle.scores.rows, np.ones(len(cycle.scores.rows), np.int64)
    for plugin in cycle.framework.plugins_at("score"):
        if offers(plugin, DistinguishingScore) and plugin.name in cycle.scores.raw and len(scored) > 1:
            among = plugin.build_row_scores(cycle.info, view)
            raw = among.compute_raw_scores(scored, among.count_domains(scored, ones))
            assert raw.tolist() == cycle.scores.raw[plugin.name].tolist()
            normal = among.normalize(raw, among.counted[scored])
            assert normal.tolist() == cycle.scores.normalized[plugin.name].tolist()
            apart = compute_codes(list(among.distinctions), rows)[scored]
            assert agree(raw, apart)
            first = np.array([scored[apart == group][0] for group in sorted(set(apart.tolist()))])
            many = np.array([np.count_nonzero(apart == group) for group in sorted(set(apart.tolist()))])
            assert among.count_domains(first, many) == among.count_domains(scored, ones)


@given(st.integers(0, 2**32 - 1))
def test_groups_keep_their_best_rows_after_moves(seed: int) -> None:
    """The expected rows are those of a loop over all rows. A group has more rows than are kept in order."""
    random = Random(seed)
    nodes, levels = random.choice((5, 40, 900)), random.choice((2, 7, 500))
    score = np.array([random.randrange(-levels // 4, levels) for _ in range(nodes)], np.int64)
    zones = np.array([random.randrange(3) for _ in range(nodes)], np.int32)
    counts = np.zeros(nodes, np.int64)
    own = Distinction(Domains(np.arange(nodes, dtype=np.int32), nodes), lambda: counts)
    trail = Trail()
    groups = RankedGroups(score, [], [own, Distinction(Domains(zones, 3), lambda: np.zeros(3, np.int64))], trail)
    told: set[int] = set()
    for step in range(60):
        for row in random.sample(range(nodes), random.choice((0, 0, 1, 3))):  # nobody comes there, or leaves
            counts[row] = random.randrange(3)
            told.add(row)
        for _ in range(random.choice((0, 1, 5, 40))):
            row = random.randrange(nodes)
            score[row] = random.randrange(-levels // 4, levels)
            if random.random() < 0.3:
                counts[row] = random.randrange(3)
            trail.append(row, 0, 1, 0)
        if step % 3:
            continue
        groups.update(score, None, np.array(sorted(told), np.int64))
        told.clear()
        _check(groups, score, list(zip(zones.tolist(), counts.tolist(), strict=True)))


def _check(groups: RankedGroups, score: np.ndarray[Any, Any], keys: list[tuple[int, int]]) -> None:
    known = {}
    best_rows = []
    for group in groups.feasible_groups.tolist():
        row = int(groups.example[group])
        members = [i for i, key in enumerate(keys) if key == keys[row] and score[i] >= 0]
        best = max(int(score[i]) for i in members)
        assert (int(groups.count[group]), int(groups.top[group])) == (len(members), best)
        best_rows += [i for i in members if score[i] == best]
        assert groups.get_best_rows(np.array([group])).tolist() == [i for i in members if score[i] == best]
        known[keys[row]] = group
    if best_rows:
        assert groups.get_best_rows(groups.feasible_groups).tolist() == sorted(best_rows)
    assert known.keys() == {key for key, value in zip(keys, score.tolist(), strict=True) if value >= 0}


@given(st.lists(st.sets(st.integers(0, 300), min_size=1, max_size=60), min_size=1, max_size=12), st.data())
def test_tied_rows_are_merged_in_order(drawn: list[set[int]], data: Any) -> None:
    taken: set[int] = set()
    lists = []
    for rows in drawn:
        lists.append(array("i", sorted(rows - taken)))
        taken |= rows
    lists = [rows for rows in lists if rows]
    tied = TiedRows(lists)
    place = data.draw(st.integers(0, len(tied) - 1))
    assert (len(tied), tied[place], tied.tolist()) == (len(taken), sorted(taken)[place], sorted(taken))


def test_label_that_no_node_has_distinguishes_no_rows() -> None:
    view = Fork.from_cluster(
        Cluster.from_objects([{"kind": "Node", "metadata": {"name": name}} for name in ("n1", "n2")])
    )
    domains = view.nodes.label("rack")
    distinction = Distinction(domains, lambda: np.zeros(0, np.int64))
    assert distinction.get_domain_values(np.arange(2)).tolist() == [0, 0]


def test_every_row_is_rejected_if_no_node_has_the_topology_key() -> None:
    """Upstream rejects nodes without the label: "node(s) didn't match pod topology spread constraints (missing required
    label)". Without any label value there is no domain in which to count pods."""
    nodes = [{"kind": "Node", "metadata": {"name": name}} for name in ("n1", "n2")]
    constraint = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    spec = {"containers": [{"name": "c", "image": "i"}], "topologySpreadConstraints": [constraint]}
    pod = {"kind": "Pod", "metadata": {"name": "p", "namespace": "a"}, "spec": spec}
    scheduler = Scheduler(Cluster.from_objects([*nodes, pod]))
    framework, view = scheduler.find_framework("default-scheduler"), scheduler.view
    assert framework is not None
    (plugin,) = [plugin for plugin in framework.plugins_at("filter") if plugin.name == "PodTopologySpread"]
    verdicts = plugin.build_row_verdicts(view.pods.infos[0], view)
    assert verdicts.mask_rejected_rows(np.array([0, 1])).tolist() == [True, True]
