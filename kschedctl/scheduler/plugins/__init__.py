"""The in-tree plugins of kube-scheduler, one module or package for each, and rules that they share in `helper`."""
