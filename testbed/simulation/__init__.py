"""What the simulated cluster is made of: a discrete-event simulation of what decides completion times.

SimPy is the kernel; the nodes' CPU, memory and counters are stepped together in numpy. Nothing of CARICO is simulated:
its own classes run here under virtual time and see sampled counters and pod events, never the truth.
"""
