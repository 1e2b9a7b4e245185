"""The projector: retells the log as a graph, in a process of its own."""
