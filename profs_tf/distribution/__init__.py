"""Several replicas: the strategy, and what the replicas exchange."""
