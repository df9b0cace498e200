"""The replay of kube-apiserver's admission for pods, claims and other objects.

Read `request` and `admit`, then a plugin such as `limit_ranger`. `not_replayed` says which plugins cannot be decided.
"""
