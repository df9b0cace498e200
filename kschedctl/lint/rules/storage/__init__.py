"""Rules about volumes, claims and StorageClasses."""
