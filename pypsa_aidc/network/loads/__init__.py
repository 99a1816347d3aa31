"""The kinds of load that a network can hold."""
