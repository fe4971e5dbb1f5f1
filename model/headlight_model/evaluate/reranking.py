"""Gain of a cross-encoder that orders the first candidates of another model.

`python -m headlight_model.evaluate.reranking EMBEDDER RERANKER --out PAGE` measures it on questions
that are drawn at random: each costs 50 pairs.
"""

from __future__ import annotations

import argparse
import dataclasses
import platform
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from headlight_model.checkpoint import TOKENIZER, load_checkpoint
from headlight_model.evaluate.neural import Shipped
from headlight_model.evaluate.ranking import Floats, bootstrap, ranks, reciprocal_ranks
from headlight_model.evaluate.task import Task, newcomer_task, package_task
from headlight_model.texts.corpus import Part
from headlight_model.texts.functions import document_text
from headlight_model.train.data.batches import encode
from headlight_model.train.data.stored import Pairs
from headlight_model.train.recipe import Recipe
from headlight_model.train.reranker import pair_of, scores

FIRST = 50  # candidates that are reranked
AT_ONCE = 64  # questions


@torch.inference_mode()
def reranked(folder: Path, task: Task, first: Floats) -> Floats:
    """Return scores [Q, C] with the first candidates of each question in the order of a reranker.

    Args:
        folder: checkpoint of `headlight_model.train.reranker`.
        task: questions and candidates.
        first: scores [Q, C] of the model that finds these candidates; the others keep its order,
            behind them.
    """
    encoder, recipe = load_checkpoint(folder), Recipe()
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    documents = [document_text(function) for function in task.candidates]
    pairs = Pairs(
        encode(tokenizer, task.questions, recipe.sentence_length),
        encode(tokenizer, documents, recipe.document_length),
    )
    reordered: Floats = first - first.max() - 1  # below 0
    chosen = np.argsort(-first, axis=1, kind="stable")[:, :FIRST]
    for begin in range(0, len(chosen), AT_ONCE):
        rows = chosen[begin : begin + AT_ONCE]
        texts = [
            pair_of(pairs, begin + at, column) for at, row in enumerate(rows) for column in row
        ]
        of_pairs = torch.sigmoid(scores(encoder, texts)[0].double()).numpy()
        np.put_along_axis(reordered[begin : begin + AT_ONCE], rows, of_pairs.reshape(rows.shape), 1)
    return reordered


def sample(task: Task, count: int) -> tuple[Task, list[int]]:
    """Return a task with so many of its questions, always the same, and their rows."""
    rows = np.sort(np.random.default_rng(0).permutation(len(task.answers))[:count]).tolist()
    chosen = dataclasses.replace(
        task,
        answers=tuple(task.answers[row] for row in rows),
        also=tuple(task.also[row] for row in rows if task.also),
        said=tuple(task.said[row] for row in rows if task.said),
    )
    return chosen, rows


def measured(name: str, task: Task, embedder: Shipped, reranker: Path, count: int) -> str:
    """Return the row of a table: MRR@10 of both, and what the second gains."""
    few, rows = sample(task, count)
    first = embedder.scores(task)[rows]
    before, after = (
        reciprocal_ranks(ranks(scores, few.answers, few.also))
        for scores in (first, reranked(reranker, few, first))
    )
    gain = bootstrap(after - before, few.groups)
    figures = f"{before.mean():.3f} | {after.mean():.3f} | {gain.mean:+.3f}"
    size = f"{len(task.candidates)} | {len(rows)} of {len(task.answers)}"
    return f"| {name} | {size} | {figures} ({gain.low:+.3f} to {gain.high:+.3f}) |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, write, print the page."""
    parser = argparse.ArgumentParser(
        prog="python -m headlight_model.evaluate.reranking", description="Measure a cross-encoder."
    )
    parser.add_argument("embedder", type=Path, help="checkpoint folder of the model that retrieves")
    parser.add_argument("reranker", type=Path, help="checkpoint folder of the cross-encoder")
    parser.add_argument("--questions", type=int, default=600, help="of each task, at most")
    parser.add_argument("--threads", type=int, help="CPU threads; default: as torch decides")
    parser.add_argument("--out", type=Path, required=True, help="page to write")
    options = parser.parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    embedder = Shipped(options.embedder)
    tasks = {"held-out packages": package_task(Part.TEST), "questions by hand": newcomer_task()}
    rows = [
        measured(name, task, embedder, options.reranker, options.questions)
        for name, task in tasks.items()
    ]
    command = shlex.join(["python", "-m", "headlight_model.evaluate.reranking", *sys.argv[1:]])
    names = f"{embedder.name} | its first {FIRST} by {options.reranker.name}"
    page = f"""# What reranking gains

`{command}`

MRR@10: the mean of one over the rank of the right function, 0 beyond the tenth. In brackets the
95 % interval of a bootstrap over packages, or top-level modules. Python
{platform.python_version()}, torch {torch.__version__.partition("+")[0]}.

| task | candidates | questions | {names} | gain |
|---|---|---|---|---|---|
""" + "\n".join(rows)
    options.out.write_text(page + "\n", encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
