"""`make bench-plan ROWS=n`: what the plan of a changed template costs for n tenants."""
