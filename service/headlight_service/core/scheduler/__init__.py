"""The scheduler: lanes, batch policy, execution slots."""
