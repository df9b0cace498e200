"""Rules about topology spread constraints."""
