"""What a template becomes for one tenant: values, the graph, rendered objects, and what they are compared with."""
