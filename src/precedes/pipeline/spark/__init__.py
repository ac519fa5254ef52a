"""The Spark session, the Java under it, its jobs and its daemons."""
