"""From the corpus to a checkpoint folder: tokenizer, steps with a progress bar, a state to resume from, figures."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tqdm import tqdm

from headlight_model.checkpoint import save_checkpoint
from headlight_model.train.data import corpus
from headlight_model.train.data.batches import Data, prepare
from headlight_model.train.data.corpus import Part
from headlight_model.train.data.tokenizer import train_tokenizer
from headlight_model.train.evaluate import masked_token_metrics, retrieval_metrics
from headlight_model.train.recipe import Recipe
from headlight_model.train.trainer import StepReport, Trainer

STATE_FOLDER = Path("build/train")
HEAD_PREFIX = "mlm_head."
SMOOTHING = 0.98  # of the figures in the progress bar


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """One model to train. Everything beside where it is written and how often it is saved decides its weights."""

    positions: str
    out: Path
    recipe: Recipe
    seed: int = 0  # 0 to 2**32 - 1
    resume: bool = False
    save_every: int = 200  # steps between resumable states
    state: Path | None = None  # where they are; None: build/train/NAME, NAME being the last part of `out`

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed is {self.seed}; it must lie between 0 and {2**32 - 1}")


def train(job: Job) -> dict[str, object]:
    """Train one model and write config.json, model.safetensors, tokenizer.json and training.json to `job.out`.

    Returns:
        What training.json holds.
    """
    job.out.mkdir(parents=True, exist_ok=True)  # now, not after the work: it may fail
    tokenizer = train_tokenizer(training_texts(), job.recipe.vocab_size)
    tokenizer_sha256 = hashlib.sha256(tokenizer.to_str().encode()).hexdigest()
    origin = {"corpus_sha256": corpus.corpus_sha256(), "tokenizer_sha256": tokenizer_sha256}
    data = prepare(tokenizer, job.recipe, Part.TRAINING)
    trainer = Trainer(job.recipe, job.positions, data, vocabulary(tokenizer), job.seed, origin)
    state = job.state or STATE_FOLDER / job.out.name
    if job.resume:
        trainer.resume(state)
    take_steps(trainer, job, state)
    report = measure(trainer, prepare(tokenizer, job.recipe, Part.VALIDATION)) | provenance(trainer)
    write(job.out, trainer, tokenizer, report)
    return report


def training_texts() -> list[str]:
    """The source texts of the training modules."""
    return [source.text for source in corpus.sources() if corpus.part_of(source.module) is Part.TRAINING]


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    """The pieces in the order of their ids."""
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def take_steps(trainer: Trainer, job: Job, state: Path) -> None:
    """The remaining steps of the recipe, saving every `job.save_every` and at the end."""
    with tqdm(total=job.recipe.steps, initial=trainer.step, desc=job.out.name, unit="step", mininterval=2.0) as bar:
        shown: dict[str, float] = {}
        while trainer.step < job.recipe.steps:
            began = time.perf_counter()
            report = trainer.advance()
            elapsed = time.perf_counter() - began
            trainer.seconds += elapsed
            smooth(shown, report, elapsed)
            bar.set_postfix({name: f"{value:.4g}" for name, value in shown.items()}, refresh=False)
            bar.update()
            if trainer.step % job.save_every == 0 or trainer.step == job.recipe.steps:
                trainer.save(state)


def smooth(shown: dict[str, float], report: StepReport, elapsed: float) -> None:
    """Blend a step into the running averages of the progress bar."""
    news = {
        f"{report.objective}_loss": report.loss,
        f"{report.objective}_accuracy": report.accuracy,
        "tokens/s": report.tokens / elapsed,
    }
    for name, value in news.items():
        shown[name] = SMOOTHING * shown.get(name, value) + (1 - SMOOTHING) * value


def measure(trainer: Trainer, validation: Data) -> dict[str, object]:
    """The figures on the validation modules, with the weights as they will be written: rounded to float16."""
    trainer.parts.eval()
    with torch.no_grad():
        for weight in trainer.parts.parameters():
            weight.copy_(weight.half())
    figures = masked_token_metrics(trainer.encoder, trainer.head, validation, trainer.seed)
    return {"validation": figures | retrieval_metrics(trainer.encoder, validation.pairs["summary"])}


def provenance(trainer: Trainer) -> dict[str, object]:
    """What the weights came from."""
    return {
        "steps": trainer.step,
        "seconds": round(trainer.seconds, 1),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__.partition("+")[0],
        **trainer.facts(),
    }


def write(out: Path, trainer: Trainer, tokenizer: Tokenizer, report: dict[str, object]) -> None:
    """The checkpoint folder."""
    head = {HEAD_PREFIX + name: value for name, value in trainer.head.state_dict().items()}
    save_checkpoint(out, trainer.encoder, tokenizer.to_str(pretty=True) + "\n", head)
    (out / "training.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
