"""Requests and limits, quotas, and the room that nodes have."""
