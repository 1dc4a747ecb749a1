"""The process that kube-scheduler asks where a pod goes; the rules are in `carico.scheduling`.

`extender` decides, `server` answers kube-scheduler, `report_server` hears the agents, `journal` notes every decision,
`process` joins them.
"""
