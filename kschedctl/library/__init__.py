"""The functions of ``kschedctl`` that put several studies together, each the answer of a command; and its Cluster."""
