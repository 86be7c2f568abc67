"""Sources of images, and the episodes drawn from them."""
