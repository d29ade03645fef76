"""Jobs for programs that run them themselves: the Puller, and the Lease that it gives for each job.

Stands on the worker's own desk, claimer, acker and heartbeat; what is here is who takes the leases, and what a caller may
say about one.
"""
