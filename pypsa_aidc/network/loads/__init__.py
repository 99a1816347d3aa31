"""The kinds of load that a network can hold: what each has to deliver, which there are, and one package for each."""
