"""Where a pod goes: reservations (`ledger`) and the filter, score and reserve of thesis §3.6 (`plugin`), both pure.

Around them the process that kube-scheduler asks: `extender` decides, `extender_server` serves, `journal` notes why,
`wake_up` says when refused pods should be tried again, `extender_process` joins them.
"""
