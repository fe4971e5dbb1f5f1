"""Training run, from the corpus to a checkpoint folder.

Tokenizer, steps with a progress bar, resumable state, figures.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
import time
from collections.abc import Iterable
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tqdm import tqdm

from headlight_model.checkpoint import TOKENIZER, TRAINING, save_checkpoint
from headlight_model.texts.corpus import STDLIB, Part, Source
from headlight_model.train.data import packages, tasks
from headlight_model.train.data.batches import prepare
from headlight_model.train.data.stored import Data, load
from headlight_model.train.data.tasks import TextPairs
from headlight_model.train.data.tokenizer import train_tokenizer, vocabulary
from headlight_model.train.encoder_trainer import EncoderTrainer
from headlight_model.train.evaluate import masked_token_metrics, retrieval_metrics
from headlight_model.train.recipe import Recipe
from headlight_model.train.teacher import Teacher, load_lessons, make_lessons, save_lessons
from headlight_model.train.trainer import StepReport, Trainer

STATE_FOLDER = Path("build/train")
DATA, LESSONS = "data.safetensors", "lessons.safetensors"
HEAD_PREFIX = "mlm_head."
SMOOTHING = 0.98  # of the figures in the progress bar


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """One model to train.

    Its weights depend on every field except the paths, `resume` and `save_every`.
    """

    positions: str
    out: Path
    recipe: Recipe
    seed: int = 0  # 0 to 2**32 - 1
    resume: bool = False
    stage: int = 0  # the training ends after it, 1 being the first; 0: after the last
    save_every: int = 25  # steps between resumable states
    # Folder of these states; None: build/train/NAME, NAME being the last part of `out`.
    state: Path | None = None
    teacher: Teacher | None = None  # of a recipe that learns from one

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed is {self.seed}; it must lie between 0 and {2**32 - 1}")
        if not 0 <= self.stage <= len(self.recipe.stages):
            raise ValueError(
                f"stage is {self.stage}; it must lie between 0 and {len(self.recipe.stages)}"
            )


def train(job: Job) -> dict[str, object]:
    """Train one model and write it to `job.out`.

    The files are config.json, model.safetensors, tokenizer.json and training.json.

    Returns:
        What training.json holds.
    """
    job.out.mkdir(parents=True, exist_ok=True)  # now, because it may fail
    state = job.state or STATE_FOLDER / job.out.name
    trainer = begin(job, state)
    if job.resume:
        trainer.resume(state)
    take_steps(trainer, job, state)
    report = measure(trainer, prepare(trainer.tokenizer, job.recipe, Part.VALIDATION)) | provenance(
        trainer
    )
    write(job.out, trainer, report)
    return report


def begin(job: Job, state: Path) -> EncoderTrainer:
    """Return a trainer before its first step.

    Tokenizer and data are read from `state` if they were made from this corpus.
    """
    recipe, chosen = job.recipe, packages.everything(job.recipe.packages)
    corpus_sha256 = packages.digest(chosen)
    made_from = json.dumps(
        [corpus_sha256, recipe.vocab_size, recipe.sentence_length, recipe.document_length]
    )
    data, file = load(state / DATA, made_from), state / TOKENIZER
    pairs = None
    if data is None:
        pairs = tasks.pairs(chosen, Part.TRAINING)
        tokenizer = train_tokenizer(training_texts(chosen, pairs), recipe.vocab_size)
        data = prepare(tokenizer, recipe, Part.TRAINING, pairs)
        data.save(state / DATA, made_from)
        file.write_text(tokenizer.to_str(), encoding="utf-8")
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer_sha256 = hashlib.sha256(tokenizer.to_str().encode()).hexdigest()
    origin = {"corpus_sha256": corpus_sha256, "tokenizer_sha256": tokenizer_sha256}
    lessons = None
    if recipe.taught:
        if job.teacher is None:
            raise ValueError("the recipe learns from a teacher, and the job has none")
        origin["teacher_sha256"] = job.teacher.sha256
        about = json.dumps([made_from, origin, recipe.dim])
        lessons = load_lessons(state / LESSONS, about)
        if lessons is None:
            pairs = pairs or tasks.pairs(chosen, Part.TRAINING)
            lessons = make_lessons(job.teacher, pairs, vocabulary(tokenizer), recipe.dim)
            save_lessons(state / LESSONS, lessons, about)
    return EncoderTrainer(recipe, job.positions, data, tokenizer, job.seed, origin, lessons)


def training_texts(chosen: Iterable[Source], pairs: TextPairs) -> list[str]:
    """Return the texts that the vocabulary is learnt from.

    Both sides of the training pairs, and source of the standard library.
    """
    texts = [text for side in pairs.values() for pair in side for text in pair]
    return texts + [
        source.text
        for source in chosen
        if source.part is Part.TRAINING and source.package == STDLIB
    ]


def take_steps(trainer: Trainer, job: Job, state: Path) -> None:
    """Take the remaining steps up to the end of the stage.

    Save every `job.save_every` steps and at the end.
    """
    last = job.recipe.end(job.stage) if job.stage else job.recipe.steps
    with tqdm(
        total=last, initial=trainer.step, desc=job.out.name, unit="step", mininterval=2.0
    ) as bar:
        shown: dict[str, float] = {}
        while trainer.step < last:
            began = time.perf_counter()
            report = trainer.advance()
            elapsed = time.perf_counter() - began
            trainer.seconds += elapsed
            smooth(shown, report, elapsed)
            bar.set_postfix({name: f"{value:.4g}" for name, value in shown.items()}, refresh=False)
            bar.update()
            if trainer.step % job.save_every == 0 or trainer.step == last:
                trainer.save(state)


def smooth(shown: dict[str, float], report: StepReport, elapsed: float) -> None:
    """Blend a step into the running averages of the progress bar."""
    news = {f"{name}_loss": loss for name, loss in report.loss.items()}
    news |= {f"{name}_accuracy": share for name, share in report.accuracy.items()}
    for name, value in (news | {"tokens/s": report.tokens / elapsed}).items():
        shown[name] = SMOOTHING * shown.get(name, value) + (1 - SMOOTHING) * value


def measure(trainer: EncoderTrainer, validation: Data) -> dict[str, object]:
    """Return the figures on the validation modules.

    The weights are rounded to float16 first, as they will be written.
    """
    trainer.parts.eval()
    with torch.no_grad():
        for weight in trainer.parts.parameters():
            weight.copy_(weight.half())
    figures = masked_token_metrics(trainer.encoder, trainer.head, validation.stream, trainer.seed)
    return {"validation": figures | retrieval_metrics(trainer.encoder, validation.pairs["summary"])}


def provenance(trainer: Trainer) -> dict[str, object]:
    """Return the origin of the weights."""
    return {
        "steps": trainer.step,
        "seconds": round(trainer.seconds, 1),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__.partition("+")[0],
        **trainer.facts(),
    }


def write(out: Path, trainer: EncoderTrainer, report: dict[str, object]) -> None:
    """Write the checkpoint folder."""
    head = {HEAD_PREFIX + name: value for name, value in trainer.head.state_dict().items()}
    save_checkpoint(out, trainer.encoder, trainer.tokenizer.to_str(pretty=True) + "\n", head)
    (out / TRAINING).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
