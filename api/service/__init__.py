"""The running service: where the parts of the other packages are put together."""
