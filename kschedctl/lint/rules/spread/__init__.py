"""Topology spread constraints."""
