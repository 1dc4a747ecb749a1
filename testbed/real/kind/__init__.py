"""kind: the nodes are containers on this machine; pods run the workloads' programs, and CARICO is deployed."""
