"""`instance-types`: print the instance types of a cluster's nodes, in the format of --instance-types."""
