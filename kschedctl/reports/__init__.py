"""Structs of the documents that commands print, as far as several commands share them."""
