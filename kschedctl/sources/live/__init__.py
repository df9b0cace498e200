"""Live clusters, read from their API servers.

Read `connection` (kubeconfig), `http` with `limits` (requests), `lists` (objects and their changes) and `reading` (all
kinds at one moment) first, then `components` (settings of the control plane), `follow` (continuous
updates), `cache` (files with recent lists) and `names` (shell completion).
"""
