"""The agent of a node: telemetry and pod events in, reports and subspaces out (thesis §4.1).

`agent` samples, learns and reports, `sources` and `checkpoint` are what it reads and keeps, `metrics` what it shows,
`process` opens and closes what it needs. `watch` is `carico watch`, a node's model without any server.
"""
