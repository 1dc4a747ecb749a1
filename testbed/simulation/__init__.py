"""The simulated cluster: a discrete-event simulation of everything that decides completion times.

SimPy is the kernel; the nodes' CPU, memory and counters are stepped together in numpy. Nothing of CARICO is simulated:
its own classes run here under virtual time, and see only sampled counters and pod events.
"""
