"""What kustomize and helm make of the folders of a repository, and the file that each object of that is made of."""
