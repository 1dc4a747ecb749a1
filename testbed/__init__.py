"""The testbed: clusters, schedulers under test, experiments, measurements and the pytest plugin around them.

It measures what any scheduler does to real jobs. Importing the package itself imports nothing heavy.
"""
