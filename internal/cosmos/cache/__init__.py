"""What all nodes last said, polled in the background, for every reconcile to look at."""
