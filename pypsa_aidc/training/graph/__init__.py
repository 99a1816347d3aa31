"""The checkpoint-state graph of a training load: slots, edges, the graph, and cheapest paths through it."""
