"""The page about positions: predictions, verdicts, figures."""
