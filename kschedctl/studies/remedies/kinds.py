"""The kinds of changes, by which people choose among them."""

from __future__ import annotations

KINDS = {
    "LowerRequest": "ask for less of a resource",
    "Tolerate": "tolerate a taint",
    "CorrectSelector": "correct a label in nodeSelector",
    "OtherSelector": "select other nodes",
    "DropSelector": "do without a label in nodeSelector",
    "CorrectNodeAffinity": "correct a label in the node affinity",
    "WidenNodeAffinity": "allow for another value in the node affinity",
    "DropNodeAffinity": "do without an expression of the node affinity",
    "SoftenNodeAffinity": "prefer nodes instead of requiring them",
    "SoftenPodAffinity": "prefer to be near pods",
    "SoftenAntiAffinity": "prefer to keep away from pods",
    "CorrectTopologyKey": "correct a topology key",
    "MaxSkew": "raise maxSkew",
    "MinDomains": "do without minDomains",
    "NodeTaintsPolicy": "count only nodes whose taints are tolerated",
    "ScheduleAnyway": "prefer to spread",
    "OtherHostPort": "another host port",
    "DropHostPort": "no host port",
    "OtherScheduler": "another schedulerName",
    "UsePriorityClass": "another PriorityClass",
    "Uncordon": "let a node take pods again",
    "RemoveTaint": "take a taint off a node",
    "LabelNode": "give a node a label",
    "AddNode": "one more node",
    "MovePod": "move a pod elsewhere",
    "ScaleDown": "one replica fewer",
}
"""Kind -> what it is."""
