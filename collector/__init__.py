"""Telemetry in: datagrams, captures and flow records become columns of samples."""
