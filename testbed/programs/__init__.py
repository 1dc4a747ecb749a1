"""Programs that run on this machine beside the testbed: finds them, runs them, and ends them with the testbed."""
