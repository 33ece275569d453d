"""The outermost layer: the contract, reports and the command line."""
