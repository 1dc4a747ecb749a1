"""The schedulers under test, as plugins of the simulated kube-scheduler framework, and how they are named."""
