"""Which images make an episode: fixed tasks, and Meta-Dataset's."""
