"""The fake extenders of upstream's tables."""

from __future__ import annotations

from typing import Any

from kschedctl.api.objects import Pod
from kschedctl.scheduler.engine.extenders import Extender, ExtenderError, HTTPExtender

Json = dict[str, Any]


class TableExtender(HTTPExtender):
    """An extender with the predicates and prioritizers that a case names."""

    def __init__(self, case: Json) -> None:
        verbs = {"filter_verb": "filter", "preempt_verb": "preempt"} if case["predicates"] else {}
        scores = {"prioritize_verb": "prioritize", "weight": case["weight"]} if case["prioritizers"] else {}
        settings = Extender(case["name"], node_cache_capable=True, ignorable=case["ignorable"], **verbs, **scores)
        super().__init__(settings, case, self._answer)
        self.case = case

    def is_interested(self, pod: Pod) -> bool:
        return not self.case["unInterested"]

    def _answer(self, extender: Json, verb: str, payload: Json) -> tuple[int, Any]:
        """Answer a call of the extender."""
        match verb:
            case "filter":
                names = payload["NodeNames"]
                left = [name for name in names if self._passes(name)]
                failed = {name: f'FakeExtender: node "{name}" failed' for name in names if name not in left}
                return 200, {"NodeNames": left, "FailedNodes": failed}
            case "preempt":
                found = payload["NodeNameToMetaVictims"]
                return 200, {"NodeNameToMetaVictims": {n: v for n, v in found.items() if self._passes(n)}}
        return 200, [{"Host": name, "Score": self._score(name)} for name in payload["NodeNames"]]

    def _passes(self, name: str) -> bool:
        """Return whether the extender's predicates accept the node."""
        for predicate in self.case["predicates"]:
            match predicate.removeprefix("framework."):
                case "ErrorPredicateExtender":
                    raise ExtenderError("some error")
                case "FalsePredicateExtender":
                    return False
                case "Node1PredicateExtender" if name != "node1":
                    return False
        return True

    def _score(self, name: str) -> int:
        """Return the score of a node. Each of upstream's extenders prefers one node, by 10 to 1."""
        favourites = {"framework.Node1PrioritizerExtender": "node1", "framework.Node2PrioritizerExtender": "node2"}
        return sum(p["weight"] * (10 if favourites[p["function"]] == name else 1) for p in self.case["prioritizers"])


def build_table_extenders(case: Json) -> list[TableExtender]:
    """Return the extenders of a case in the order in which they are called."""
    return [TableExtender(each) for each in case.get("extenders", ())]
