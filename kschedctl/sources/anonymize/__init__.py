"""Anonymization of snapshots: names, keys, label values and images become pseudonyms.

Read `cluster` (the whole cluster) with `pseudonyms` and `rewriter` first, then `fields` with the handlers by subject
(`observed`, `custom_resources`), and `kept_texts` and `expressions` (what must not change).
"""
