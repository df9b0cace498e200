"""The command `explain`: why is this pod Pending, or why are all of these?

Read in this order:

- `one_pod`: the library function `explain`, and the steps of an explanation
- `cycle_report`: one scheduling cycle, and the report on its outcome
- `reach`, `eliminations`, `headline`, `advice`: why nodes are rejected, and the answer in words
- `preemption`, `pod_group`, `gang`: the parts about preemption and about pods that are placed together
- `new_pods`, `fixes`, `waiting`: pods to be created, verified fixes, and retries
- `pending_pods`, `named_elsewhere`: all pending pods, and objects that wait before kube-scheduler sees a pod of them
- `report`, `pending_report`, `pod_group_report`, `compact`: the documents
- `page` and the other `_page` modules, `html_widgets`: how the documents are shown
- `command`, `watching`: the command line

Nothing is imported here, so that "nothing is pending" is answered without the modules that explain a pod.
"""
