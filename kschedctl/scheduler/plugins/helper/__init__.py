"""Rules that several plugins share, such as scoring by resources, signatures and storage lookups.

Upstream: pkg/scheduler/framework/plugins/helper.
"""
