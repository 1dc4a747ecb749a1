"""The agent of a node as a process: telemetry and pod events in, reports and subspaces out (thesis §4.1)."""
