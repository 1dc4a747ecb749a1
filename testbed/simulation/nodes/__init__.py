"""The simulated nodes: CPU sharing, counters, kubelets, servers, and nodes that come and go."""
