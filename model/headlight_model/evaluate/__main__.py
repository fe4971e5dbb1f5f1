"""`make evaluate`: measure the shipped models and write the page and the same figures as JSON."""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
from pathlib import Path

import torch

from headlight_model.evaluate import order, retrieval
from headlight_model.evaluate.neural import Shipped
from headlight_model.evaluate.report import Origin, page
from headlight_model.train.data import corpus


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, measure, write, print the page."""
    parser = argparse.ArgumentParser(prog="python -m headlight_model.evaluate", description="Measure trained models.")
    parser.add_argument("models", nargs="+", type=Path, help="checkpoint folders of headlight_model.train")
    parser.add_argument("--out", type=Path, required=True, help="page to write; the figures go beside it as .json")
    options = parser.parse_args(arguments)
    models = [Shipped(folder) for folder in options.models]
    origin = Origin(
        corpus_sha256=corpus.corpus_sha256(),
        python=platform.python_version(),
        torch=torch.__version__.partition("+")[0],
        trained_on={model.name: model.facts["corpus_sha256"] for model in models},
    )
    of_order = [order.measure(model) for model in models]
    of_retrieval = retrieval.measure(models)
    text = page(origin, of_order, of_retrieval)
    figures = {
        "origin": dataclasses.asdict(origin),
        "order": [dataclasses.asdict(model) for model in of_order],
        "retrieval": dataclasses.asdict(of_retrieval),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text, encoding="utf-8")
    options.out.with_suffix(".json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
