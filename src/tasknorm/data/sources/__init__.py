"""One file for each data set, and folders of your own images."""
