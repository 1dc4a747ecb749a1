"""The extender, which kube-scheduler asks where a pod goes; the rules are in `carico.scheduling` and `carico.demand`.

`extender` decides by the thesis's variants, `demand_extender` by the variant `demand`; `server` answers kube-scheduler,
`report_server` receives reports, `journal` records every decision and `journal_reader` reads it, `metrics` is what the
extender exports, and `process` opens and closes everything.
"""
