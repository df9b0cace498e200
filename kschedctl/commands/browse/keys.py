"""The key bindings of the browser and the text of its help screen."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from kschedctl.commands.browse.answers import TABS
from kschedctl.fixes.supposing import SUPPOSABLE

KEYS: list[BindingType] = [
    Binding("question_mark", "help", "Help"),
    Binding("slash", "ask('search')", "Search"),
    Binding("a", "ask('as if')", "As if"),
    Binding("s", "sort", "Sort"),
    Binding("n", "namespace", "NS"),
    Binding("w", "workload", show=False),
    Binding("c", "copy", "Copy"),
    Binding("q", "quit", "Quit"),
    Binding("ctrl+c", "quit", show=False, priority=True),
    Binding("r", "reconnect", show=False),
    *(Binding(str(i + 1), f"tab('{tab}')", show=False) for i, tab in enumerate(TABS)),
    Binding("escape", "leave", "Back"),
]

HELP = f"""\
Tab      to the other side and back (list of pods; what is said of the chosen)
Up Down  choose a pod, a node, a remedy, or scroll; j k PgUp PgDn Home End
Enter    open a node (room, pods, what would fit), a workload, a remedy
Esc      back; takes back what was supposed or searched for
1 to 5   why, nodes, scores, remedies, the map of the nodes (Enter lists those of a reason)
/        search pods by name and cause, nodes, workloads; or in the list of nodes
a        as if: ask again with another priority, request or toleration, or with one more node
s        sort pods by cause, age or name; nodes by answer, name or pool
n        pick the namespace of the pods
w        the workload of the pod
c        copy the command that asks the same, or those of the chosen remedy
r        read the live cluster again when it is lost
q        quit

As if: {SUPPOSABLE}
e.g.   cpu=500m tolerate=nvidia.com/gpu

Copying goes by the terminal (OSC 52), also over ssh; what was copied is printed at the end, too, for terminals that \
do not take it."""
KEY_WIDTH = 9
