"""The aggregation server as a process; the merge core is `carico.model.aggregator` (thesis §4.3)."""
