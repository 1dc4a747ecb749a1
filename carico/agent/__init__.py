"""The agent of a node: telemetry and pod events in, reports and subspaces out (thesis §4.1).

`loop` samples and keeps checkpoints for both agents: `agent` learns and reports by the thesis's variants,
`demand_agent` by the variant `demand`. `sources` and `checkpoint` are what they read and keep, `metrics` what they
show, `process` opens and closes what they need. `watch` is `carico watch`, a node's model without any server.
"""
