"""From a GPU fleet's trace to hourly power, an envelope of what can be let go, and the dependable part of it."""
