"""The extender, which kube-scheduler asks where a pod goes; the rules are in `carico.scheduling` and `carico.demand`.

`extender` decides by the thesis's variants, `demand_extender` by the variant `demand`; `server` answers kube-scheduler,
`report_server` takes reports, `journal` keeps every decision, `metrics` are its numbers, `process` opens and
closes what it needs.
"""
