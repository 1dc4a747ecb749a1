"""The aggregation server; the merge core is `carico.model.aggregator` (thesis §4.3).

`server` answers nodes and other replicas, `outliers` finds nodes far from the others, `metrics` is what it exports, and
`process` opens and closes everything.
"""
