"""The aggregation server; the merge core is `carico.model.aggregator` (thesis §4.3).

`server` answers nodes and other replicas, `metrics` are what it shows, `process` opens and closes what it needs.
"""
