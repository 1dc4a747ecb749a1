"""Where a pod goes: reservations (`ledger`) and the filter, score and reserve of thesis §3.6 (`plugin`). Pure."""
