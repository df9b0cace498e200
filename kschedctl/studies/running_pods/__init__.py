"""Whether pods are where the rules would put them now, and what the scheduler's and the kubelets' mistakes leave."""
