"""What keeps an install healthy: taking back jobs of the dead, deleting what is old, folding the counts.

One small service a file, each with `run_once(cur)`; service.py runs them in turn. Any number of processes may do so at
once: the SQL skips what another one has locked.
"""
