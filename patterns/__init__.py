"""From jobs to meaning: groups with role and algorithm, iterations, findings."""
