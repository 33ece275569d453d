"""HTTP of the running service: REST, metrics, health, and the pages' files."""
