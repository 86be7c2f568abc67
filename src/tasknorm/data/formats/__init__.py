"""How images, records and data set descriptions lie in files."""
