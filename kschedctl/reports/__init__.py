"""Structs of printed documents that several commands share."""
