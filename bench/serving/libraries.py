"""Contestants in process: sentence-transformers, fastembed, and a plain loop over OpenVINO."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.frame.processes import Failed, installed, run
from bench.serving.contestants import InProcess, Setting
from bench.serving.workloads import BATCHES, BULK, LIST, ONE, Workload
from headlight_export.precision.sample_texts import training_docstrings

BATCH_SIZES = (32, 8)  # the first is sentence-transformers' default
TOKENIZER_FILE = "tokenizer_config.json"
TUNING_TEXTS = 128  # texts, to choose a batch size


def converted(setting: Setting, python: Path, backend: str) -> Path:
    """Return sentence-transformers' folder of the model for a backend, made once.

    int8 is calibrated on the texts that Headlight's export takes by default.

    Raises:
        Failed: it cannot be made; the message has the reason.
    """
    folder, texts = setting.work / backend, setting.work / "calibration" / "train.jsonl"
    if folder.is_dir():
        return folder
    if not texts.is_file():
        texts.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({"text": text}) for text in training_docstrings()]
        texts.write_text("\n".join(lines), encoding="utf-8")
    draft = folder.with_name(f"{backend}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    command = [str(installed(python)), "-m", "bench.peers.convert", str(setting.model)]
    run([*command, backend, str(draft), str(texts.parent)])
    draft.rename(folder)
    return folder


class Library(InProcess):
    """sentence-transformers in process.

    `processes`: of its multi-process pool, one thread each; 1: no pool.
    """

    kind = "library"
    workloads: tuple[str, ...] = (ONE, BATCHES, BULK)

    def __init__(
        self,
        name: str,
        precision: str,
        setting: Setting,
        python: Path,
        backend: str,
        processes: int = 1,
    ) -> None:
        super().__init__(name, precision, setting)
        self._python, self._backend, self._processes = python, backend, processes
        if processes > 1:
            self.workloads = (BATCHES, BULK)
        self._batch_size = dict.fromkeys(self.workloads, BATCH_SIZES[0])

    def start(self) -> None:
        super().start()
        precision = self.describe()["precision_told"]
        # OpenVINO computes bf16 in f32 where the processor has no bfloat16.
        if (self.precision, precision) == ("bf16", "f32"):
            raise Failed("its bf16 runs in f32 on this processor")

    def _worker(self) -> tuple[str, ...]:
        setting, model = self._setting, self._setting.model
        if self.precision == "int8":
            model = converted(setting, self._python, self._backend)
        how = (self._backend, self.precision, str(self._processes))
        worker = (str(self._python), "bench.peers.sentence")
        return *worker, str(model), str(setting.texts), *how

    def tune(self) -> dict[str, Any]:
        order, rates = list(range(len(self._setting.tokens)))[:TUNING_TEXTS], {}
        for workload, group in ((BATCHES, 32), (BULK, 0)):
            if workload not in self.workloads:
                continue
            tried: dict[int, float] = {}
            for size in BATCH_SIZES:
                request = {"order": order, "group": group, "batch_size": size}
                # The faster of two: the first meets shapes for the first time.
                tried[size] = len(order) / min(
                    self.process.ask("run", **request)["seconds"] for _ in range(2)
                )
            self._batch_size[workload] = max(tried, key=lambda size: tried[size])
            rates[workload] = {str(size): rate for size, rate in tried.items()}
        return {"batch_size": self._batch_size, "texts_per_s_by_batch_size": rates}

    def _run(self, workload: Workload, order: Sequence[int]) -> dict[str, Any]:
        group, size = (
            0 if workload.name == BULK else workload.group,
            self._batch_size[workload.name],
        )
        return self.process.ask("run", order=list(order), group=group, batch_size=size)


class Fastembed(Library):
    """fastembed in process, with the graph that sentence-transformers converts.

    `processes`: its `parallel`, which starts processes for each call of more than a batch; so only
    the whole list has them.
    """

    def __init__(
        self, name: str, setting: Setting, python: Path, converter: Path, processes: int = 1
    ) -> None:
        super().__init__(name, "fp32", setting, python, "onnx", processes)
        self._converter = converter
        if processes > 1:
            self.workloads = (BULK,)

    def _worker(self) -> tuple[str, ...]:
        folder = converted(self._setting, self._converter, self._backend)
        config, limits, tokenizer = (
            json.loads(file.read_text(encoding="utf-8"))
            for file in (
                folder / "config.json",
                self._setting.model / "sentence_bert_config.json",
                folder / TOKENIZER_FILE,
            )
        )
        # It reads the limit there, which published folders leave at the tokenizer's own.
        tokenizer["max_length"] = limits["max_seq_length"]
        (folder / TOKENIZER_FILE).write_text(json.dumps(tokenizer), encoding="utf-8")
        how = (str(config["hidden_size"]), str(self._processes))
        return str(self._python), "bench.peers.fast", str(folder), str(self._setting.texts), *how


class PlainLoop(InProcess):
    """OpenVINO in a loop of some lines, on the whole list: what a bulk job could reach."""

    kind = "library"
    workloads = (BULK, LIST)

    def _worker(self) -> tuple[str, ...]:
        setting = self._setting
        worker = (sys.executable, "bench.peers.plain")
        return *worker, str(setting.bundle), str(setting.texts), self.precision

    def tune(self) -> dict[str, Any]:
        return self.process.ask("tune", order=list(range(len(self._setting.tokens)))[:TUNING_TEXTS])

    def _run(self, workload: Workload, order: Sequence[int]) -> dict[str, Any]:
        return self.process.ask("run", order=list(order))
