"""Results: their schema and how they are stored."""
