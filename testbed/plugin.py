"""pytest's side of the testbed: hooks only; everything heavy is imported when a cluster test needs it."""
