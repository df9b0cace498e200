"""What the choice of a node comes to when a part of the nodes is looked at, for every node at which that may begin."""
