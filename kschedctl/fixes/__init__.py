"""The search for verified fixes, which the commands explain, remedies and browse share.

Read `search`, then the package `trial`, which replays a fix, then the package `ways`, which proposes fixes.
"""
