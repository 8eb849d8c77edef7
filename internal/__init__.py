"""Business logic, one package per system."""
