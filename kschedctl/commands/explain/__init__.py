"""``explain``: why is this pod Pending? Or: why are these?

Read ``one_pod`` first: the library function ``explain``, and the steps of an explanation. ``attempt`` runs a cycle and
builds the report, with ``causes``, ``eliminations``, ``headline`` and ``advice`` for its parts; ``fixes`` adds what
would help. ``pending_pods`` and ``pending_groups`` explain all pods that wait. Nothing is imported here, so that
"nothing is pending" is answered without the modules that explain a pod.
"""
