"""The agent of a node: telemetry and pod events in, reports and subspaces out (thesis §4.1).

`loop` samples and saves checkpoints for both agents: `agent` learns and reports by the thesis's variants,
`demand_agent` by the variant `demand`. `sources` opens what they read, `checkpoint` is the file that they keep,
`metrics` is what they export, and `process` opens and closes everything. `watch` is `carico watch`, a node's model
without any server.
"""
