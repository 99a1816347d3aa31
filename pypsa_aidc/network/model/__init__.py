"""What AIDCs add to a PyPSA model: paths, calls, budgets, storage."""
