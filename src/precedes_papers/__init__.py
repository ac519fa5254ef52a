"""The papers: published figures as data, the runs that produce them, and the comparison.

Empty, so that asking which papers there are loads neither the simulator nor Spark.
"""
