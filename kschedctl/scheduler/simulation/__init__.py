"""Simulations, in which pods are placed one after another and equal pods share answers.

In reading order: `simulation` (the run), `outcome`, `attempts` (single pods), `gangs` (groups), `queued_pods` (the
queue), `reused_answers` and `placement` (the choice of nodes), `alike_pods`, `local_scores`, `claim_answers`,
`grouped_ranking`, `ranked_groups` and `copy_ranking` (cached answers), and `following` (a replay under the caller's
control).
"""
