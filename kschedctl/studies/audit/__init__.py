"""The audit of a cluster: a file for each section, from the ground that all share to the section as a document."""
