"""Training of a cross-encoder: a sentence and a function in one text, scored by a head.

`python -m headlight_model.train.reranker --start CHECKPOINT --out FOLDER` starts from a trained
encoder. The wrong answers are the functions of its neighbourhood that the encoder, or BM25, finds
for the sentence.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import bm25s
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

from headlight_model.checkpoint import TOKENIZER, TRAINING, load_checkpoint, save_checkpoint
from headlight_model.config import Dense, ScoreHead
from headlight_model.encoder import Encoder
from headlight_model.texts.corpus import Part
from headlight_model.train.data import packages
from headlight_model.train.data.batches import embed, pad, prepare
from headlight_model.train.data.stored import Data, Pairs, load
from headlight_model.train.loop import DATA, STATE_FOLDER, Job, provenance, take_steps
from headlight_model.train.recipe import QUICK, Recipe, Stage
from headlight_model.train.trainer import Result, Trainer

TASK = "summary"  # pairs of `tasks.TASKS` that are learned from
# Consecutive pairs among which wrong answers are sought: about as many functions as a package has.
NEIGHBOURS = 4096
CANDIDATES = 32  # of each of the two searches, for each sentence
QUESTIONS, WRONG = 32, 7  # of a step; of each question
MINED, RANKS = "mined.safetensors", 6
ROWS = 64  # pairs that are computed together


class RankTrainer(Trainer):
    """Training of an encoder with a head that scores pairs, from a trained encoder.

    Args:
        start: the trained encoder.
        wrong: as `mine` returns.
    """

    def __init__(
        self,
        recipe: Recipe,
        start: Encoder,
        data: Data,
        wrong: NDArray[np.int32],
        tokenizer: Tokenizer,
        seed: int,
        origin: dict[str, str],
    ) -> None:
        torch.manual_seed(seed)
        super().__init__(with_head(start), {}, recipe, data, tokenizer, seed, origin)
        self.wrong = wrong

    def objectives(self) -> dict[str, float]:
        return {"ranks": 1.0}

    def ranks(self) -> Result:
        """Find the right function among the wrong ones of each of this step's questions."""
        random = np.random.default_rng([self.seed, RANKS, self.step])
        pairs, wrong = self.data.pairs[TASK], self.wrong
        usable = np.flatnonzero((wrong >= 0).sum(axis=1) >= WRONG)
        questions = random.choice(usable, min(QUESTIONS, len(usable)), replace=False)
        rows = []
        for at in questions:
            others = random.choice(wrong[at][wrong[at] >= 0], WRONG, replace=False)
            rows += [pair_of(pairs, at, document) for document in (at, *others)]
        logits, tokens = scores(self.encoder, rows, bfloat16=self.recipe.bfloat16)
        logits = logits.view(len(questions), 1 + WRONG)
        right = torch.zeros(len(questions), dtype=torch.int64)
        accuracy = (logits.argmax(dim=1) == 0).float().mean()
        return Result(functional.cross_entropy(logits, right), accuracy, tokens)


def with_head(start: Encoder) -> Encoder:
    """Return an encoder with the same weights, token types that add nothing yet, and a head."""
    dim = start.config.dim
    head = ScoreHead(
        layers=(Dense(width=dim, bias=True, activation="silu"), Dense(width=1, bias=True)),
        labels=("relevant",),
        activation="sigmoid",
    )
    encoder = Encoder(
        dataclasses.replace(start.config, segments=2, score_head=head, dense=(), normalize=False)
    )
    kept = {name: each for name, each in start.state_dict().items() if "dense" not in name}
    encoder.load_state_dict(kept, strict=False)
    assert encoder.segment_embedding is not None
    nn.init.zeros_(encoder.segment_embedding.weight)
    return encoder


def pair_of(pairs: Pairs, question: int, document: int) -> tuple[list[int], int]:
    """Return the ids of [CLS] question [SEP] document [SEP], and where the document begins."""
    first, second = pairs.queries[question], pairs.documents[document]
    return [*first, *second[1:]], len(first)


def scores(
    encoder: Encoder, rows: Sequence[tuple[list[int], int]], *, bfloat16: bool = False
) -> tuple[Tensor, int]:
    """Return logits, float32 [N] in the order of `rows`, and the number of tokens with padding.

    Rows of similar length share a batch.
    """
    order = sorted(range(len(rows)), key=lambda row: len(rows[row][0]))
    parts, tokens = [], 0
    for start in range(0, len(rows), ROWS):
        chosen = [rows[row] for row in order[start : start + ROWS]]
        ids, mask = pad([ids for ids, _ in chosen])
        second = torch.tensor([begin for _, begin in chosen])[:, None]
        types = (torch.arange(ids.shape[1]) >= second) & mask
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            logits = encoder(ids, mask, segments=types.long()).heads["logits"]
        parts.append(logits.float()[:, 0])
        tokens += ids.numel()
    return torch.cat(parts)[torch.tensor(order).argsort()], tokens


def mine(encoder: Encoder, pairs: Pairs) -> NDArray[np.int32]:
    """Return for each pair the rows of wrong answers, likeliest first: int32 [N, 2 CANDIDATES].

    -1 stands at the end, if there are fewer. A function with the same text, or that the same
    sentence describes, is no wrong answer.
    """
    candidates = []
    for begin in range(0, len(pairs.queries), NEIGHBOURS):
        rows = slice(begin, begin + NEIGHBOURS)
        queries, documents = pairs.queries[rows], pairs.documents[rows]
        with torch.inference_mode():
            vectors = [embed(encoder, side, bfloat16=True)[0] for side in (queries, documents)]
            cosines = vectors[0] @ vectors[1].T
        index = bm25s.BM25(method="lucene")
        index.index([[*map(str, row[1:-1])] or ["-1"] for row in documents], show_progress=False)
        pieces = {each for row in documents for each in row[1:-1]}
        for at, row in enumerate(queries):
            terms = [str(each) for each in row[1:-1] if each in pieces]
            lexical = index.get_scores(terms) if terms else np.zeros(len(documents))
            likely = [
                np.argsort(-each, kind="stable")[: 2 * CANDIDATES].tolist()
                for each in (cosines[at].numpy(), lexical)
            ]
            wrong = [
                dict.fromkeys(
                    begin + each
                    for each in side
                    if documents[each] != documents[at] and queries[each] != row
                )
                for side in likely
            ]
            both = [*dict.fromkeys(each for side in wrong for each in [*side][:CANDIDATES])]
            candidates.append(both + [-1] * (2 * CANDIDATES - len(both)))
    return np.array(candidates, np.int32)


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, train, print the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m headlight_model.train.reranker", description="Train a cross-encoder."
    )
    parser.add_argument("--start", type=Path, required=True, help="checkpoint folder to start from")
    parser.add_argument("--out", type=Path, required=True, help="checkpoint folder to write")
    parser.add_argument("--state", type=Path, help="folder of the state; default: build/train/NAME")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--threads", type=int, help="CPU threads; default: as torch decides")
    parser.add_argument("--resume", action="store_true", help="continue from --state")
    parser.add_argument("--quick", action="store_true", help="a few steps, to test the training")
    options = parser.parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    base = QUICK if options.quick else Recipe()
    steps = 2 if options.quick else options.steps
    stage = Stage(steps=steps, learning_rate=4e-4)
    recipe = dataclasses.replace(base, stages=(stage,), taught_heads=(), word_steps=0)
    job = Job(positions="rope", out=options.out, recipe=recipe, state=options.state)
    state = job.state or STATE_FOLDER / job.out.name
    trainer = begin(options.start, recipe, state)
    if options.resume:
        trainer.resume(state)
    take_steps(trainer, job, state)
    report = provenance(trainer)
    job.out.mkdir(parents=True, exist_ok=True)
    save_checkpoint(job.out, trainer.encoder, trainer.tokenizer.to_str(pretty=True) + "\n")
    (job.out / TRAINING).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def begin(start: Path, recipe: Recipe, state: Path) -> RankTrainer:
    """Return a trainer before its first step, with data from `state` if they are the same."""
    encoder = load_checkpoint(start)
    tokenizer = Tokenizer.from_file(str(start / TOKENIZER))
    facts = json.loads((start / TRAINING).read_text(encoding="utf-8"))
    origin = {
        "corpus_sha256": packages.digest(packages.everything(recipe.packages)),
        "tokenizer_sha256": facts["tokenizer_sha256"],
    }
    made_from = json.dumps([*origin.values(), recipe.sentence_length, recipe.document_length])
    data = load(state / DATA, made_from)
    if data is None:
        data = prepare(tokenizer, recipe, Part.TRAINING)
        data.save(state / DATA, made_from)
        save_file({TASK: mine(encoder, data.pairs[TASK])}, state / MINED)
    wrong = load_file(state / MINED)[TASK]
    return RankTrainer(recipe, encoder, data, wrong, tokenizer, 0, origin)


if __name__ == "__main__":
    main()
