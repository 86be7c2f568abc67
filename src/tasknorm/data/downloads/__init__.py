"""Fetching data sets from their official addresses."""
