"""What systems share whose objects are on the hub of a data plane."""
