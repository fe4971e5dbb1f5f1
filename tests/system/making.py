"""Small models, made in processes beside that of the tests.

A model is made while tests of others wait for a service.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import torch

from headlight_export.writer.bundle_writer import export_checkpoint
from headlight_model.checkpoint import TOKENIZER
from tests.factory import kind_config, write_checkpoint
from tests.once import once_in

PROCESSES = 2


def makers() -> ProcessPoolExecutor:
    """Return processes that import PyTorch once for all models."""
    # Forking a process with threads, such as gRPC's, may hang.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(PROCESSES, context, initializer=torch.set_num_threads, initargs=(1,))


def fresh(kind: str, made: Path) -> Path:
    """Return the folder with `checkpoint` and `bundle` of a key of KINDS, in that of all processes.

    Its attention is sharpened.
    """
    return once_in(made, f"fresh-{kind}", partial(_fresh, kind))


def _fresh(kind: str, folder: Path) -> None:
    checkpoint = write_checkpoint(folder / "checkpoint", kind_config(kind))
    if kind == "none":  # one of them takes ids alone
        (checkpoint / TOKENIZER).unlink()
    export_checkpoint(checkpoint, folder / "bundle")
