"""Analysis of attention heads: kinds, strongest links, importance and pictures."""

from headlight.analysis.head_analysis import Analysis, Importance, analyse, importance

__all__ = ["Analysis", "Importance", "analyse", "importance"]
