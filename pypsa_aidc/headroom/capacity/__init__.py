"""Whether there is capacity enough: outages of units drawn hour by hour."""
