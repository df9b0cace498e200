"""The command `browse`: explore pending pods, nodes and fixes in the terminal.

Read `session`, which answers questions about one state of the cluster, then `app`, `listing` and `answer_pane`, and
`answers` for the contents of the tabs.
"""
