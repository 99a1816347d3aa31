"""What AIDCs did in a solved network: schedules, calls, power and money."""
