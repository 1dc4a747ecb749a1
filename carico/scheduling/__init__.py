"""Where a pod goes, pure: the `ledger` of reservations, the `plugin` that comes to a `decision`, and the `wake_up`.

The extender drives these on a real cluster, the simulated framework under virtual time (thesis §3.6).
"""
