"""PersistentVolumes and the claims that they are for."""
