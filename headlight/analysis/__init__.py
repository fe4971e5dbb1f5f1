"""Attention heads: their kinds, their strongest links, pictures of them."""

from headlight.analysis.head_analysis import Analysis, Importance, analyse, importance

__all__ = ["Analysis", "Importance", "analyse", "importance"]
