"""The worker of one process: what claims jobs, runs them in threads and reports how they ended.

worker.py is the place to start reading: it names the threads and the order in which they stop.
"""
