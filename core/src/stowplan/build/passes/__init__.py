"""Passes over graphs, each a function from graph to graph that leaves every output as it was, bit for bit."""
