"""Plots: what one says (plot), where its numbers lie (axes), and drawn in characters and as pictures."""
