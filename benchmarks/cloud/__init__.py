"""`make bench-cloud N=n`: what n Instances with stubbed tasks cost, and whether the limits hold."""
