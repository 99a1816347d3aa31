"""The service study: firm and conditional megawatts of a batch of AIDCs, by year, with what limits and what cures."""
