"""What people read of results."""
