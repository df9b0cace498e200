"""``browse``: explore pending pods, nodes and fixes in the terminal.

Read ``session``, which keeps the scheduler between screens, then ``app``, ``listing`` and ``answer_pane``, and
``answers`` for what the tabs show.
"""
