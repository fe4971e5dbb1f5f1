"""Command of `nox -s evaluate`: measure the shipped models, write the page and its JSON figures."""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
from pathlib import Path

import torch

from headlight_model.evaluate import order, retrieval
from headlight_model.evaluate.neural import Beginnings, Shipped, recipe_of, taught_scores
from headlight_model.evaluate.report import Origin, page
from headlight_model.evaluate.task import newcomer_task, package_task, retrieval_task
from headlight_model.texts.corpus import Part
from headlight_model.train.data import packages
from headlight_model.train.loop import STATE_FOLDER
from headlight_model.train.teacher import BundleTeacher


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, measure, write, print the page."""
    parser = argparse.ArgumentParser(
        prog="python -m headlight_model.evaluate", description="Measure trained models."
    )
    parser.add_argument(
        "models", nargs="+", type=Path, help="checkpoint folders of headlight_model.train"
    )
    parser.add_argument(
        "--previous", type=Path, help="checkpoint folder of the first model's predecessor"
    )
    parser.add_argument(
        "--teacher", type=Path, help="bundle of the first model's teacher, to be measured too"
    )
    parser.add_argument(
        "--state", type=Path, default=STATE_FOLDER / "evaluation", help="where the corpus is kept"
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="page to write; the figures go beside it as .json"
    )
    options = parser.parse_args(arguments)
    models = [Shipped(folder) for folder in options.models]
    if options.previous:
        models.append(Shipped(options.previous, f"{models[0].name} before"))
    with_packages = recipe_of(models[0]).packages
    origin = Origin(
        corpus_sha256=packages.digest(packages.everything(with_packages)),
        python=platform.python_version(),
        torch=torch.__version__.partition("+")[0],
        fusion_weight=retrieval.fusion_weight(
            models[0], (package_task if with_packages else retrieval_task)(Part.VALIDATION)
        ),
        trained_on={model.name: model.facts["corpus_sha256"] for model in models},
    )
    tasks = {"standard library": retrieval_task(Part.TEST)}
    if with_packages:
        tasks = {
            "held-out packages": package_task(Part.TEST),
            **tasks,
            "questions by hand": newcomer_task(),
        }
    of_order = [order.measure(model) for model in models]
    scored = retrieval.baselines(Beginnings(models[0], options.state), tasks)
    if options.teacher:
        teacher = BundleTeacher(options.teacher)
        for name, task in tasks.items():
            scored[name][f"{teacher.name}, a teacher"] = taught_scores(teacher, task)
    of_retrieval = [
        retrieval.measure(name, task, models, scored[name], origin.fusion_weight)
        for name, task in tasks.items()
    ]
    text = page(origin, of_order, of_retrieval)
    figures = {
        "origin": dataclasses.asdict(origin),
        "order": [dataclasses.asdict(model) for model in of_order],
        "retrieval": [dataclasses.asdict(task) for task in of_retrieval],
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text, encoding="utf-8")
    options.out.with_suffix(".json").write_text(
        json.dumps(figures, indent=2) + "\n", encoding="utf-8"
    )
    print(text)


if __name__ == "__main__":
    main()
