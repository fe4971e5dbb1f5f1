"""Experiments of the lab: their trainings, and what is measured on each."""
