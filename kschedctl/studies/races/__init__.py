"""How often a scheduler that takes an assumed pod for gone, or several of them, give the same room away twice."""
