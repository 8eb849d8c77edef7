"""The cloud system: Instances, their subresources, and the tasks that carry them out."""
