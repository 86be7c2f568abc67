"""What the tests share: small data, tasks, learners, runs and grids; the oracle of the norms."""
