"""Training sites: jobs as checkpoint-state graphs that share a pool of GPUs behind one grid connection."""
