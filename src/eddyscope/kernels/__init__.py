"""Arrays in, arrays out: the arithmetic, without labels, files or models."""
