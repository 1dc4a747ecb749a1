"""The extender, which kube-scheduler asks where a pod goes; the rules are in `carico.scheduling`.

`extender` decides, `server` answers kube-scheduler, `report_server` takes the agents' reports, `journal` keeps every
decision, `metrics` are its numbers, `process` opens and closes what it needs.
"""
