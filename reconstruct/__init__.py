"""From sampled packets to jobs: progress, edges, jobs, rhythm."""
