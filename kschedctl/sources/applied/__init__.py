"""The files of a repository that are applied together, and the documents that are patches or test data."""
