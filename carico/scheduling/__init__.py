"""Where a pod goes, pure: reservations (`ledger`), decisions (`plugin`, `decision`), and wake-ups (`wake_up`).

`scheduler` joins them. The extender drives it on a real cluster, the simulated framework under virtual time (thesis
§3.6). `report` is what nodes send.
"""
