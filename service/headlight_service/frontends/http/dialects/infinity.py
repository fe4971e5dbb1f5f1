"""Labels of texts as infinity gives them, on the path that vLLM has, too."""

from __future__ import annotations

from typing import Any

from headlight_service.frontends.scoring import Scored


def is_infinity(body: dict[str, Any]) -> bool:
    """Return whether a body to /classify is infinity's, whose client always sends `raw_scores`."""
    return "raw_scores" in body


def label_lists(scores: Scored, names: tuple[str, ...]) -> list[list[dict[str, Any]]]:
    """Return a list of all labels for each text, the likeliest first."""
    return [
        [{"score": score, "label": label} for label, score in labels]
        for labels in scores.labels(names)
    ]
