"""The simulated control plane: the API server, the Job controller and the framework of kube-scheduler."""
