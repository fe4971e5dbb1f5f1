"""Tuning: choices by measurement, and settings that the service reads."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headlight.errors import DeviceFull
from headlight.runtime import Runtime
from headlight_service.app import tuning
from headlight_service.app.assembly import load
from headlight_service.app.tuning import EXAMPLES, Machine, Options, main, tune
from headlight_service.config.options import Config

LAYOUTS = [Options("cpu", 2, 1), Options("cpu", 1, 2), Options("openvino", 2, 1)]


class Known:
    """Machine with known rates."""

    def __init__(
        self, layouts: Sequence[Options], rates: dict[Options, float], usual: float
    ) -> None:
        self._layouts, self._rates, self._usual = layouts, rates, usual

    def layouts(self) -> Sequence[Options]:
        return self._layouts

    def measure(self, contestants: Sequence[Options]) -> dict[Options, float]:
        return {options: self._rates.get(options, self._usual) for options in contestants}


def chosen(rates: dict[Options, float], layouts: Sequence[Options] = LAYOUTS) -> Options:
    return tune(Known(layouts, rates, 100.0))[0]  # type: ignore[arg-type]  # a fake


def test_equal_rates_choose_the_cheapest_settings() -> None:
    assert chosen({}) == replace(LAYOUTS[0], batch_tokens=128)


def test_tokens_and_rounding_are_tuned_with_the_fastest_layout() -> None:
    fast = LAYOUTS[2]
    rates = {
        replace(fast, batch_tokens=512): 200.0,
        replace(fast, batch_tokens=1024): 260.0,
        replace(fast, batch_tokens=2048): 265.0,  # not worth twice the wait
        replace(fast, batch_tokens=1024, round_lengths=8): 300.0,
        replace(fast, batch_tokens=1024, round_lengths=16): 301.0,
    }
    assert chosen(rates) == replace(fast, batch_tokens=1024, round_lengths=8)


def test_a_smaller_batch_is_preferred_within_the_tolerance() -> None:
    assert chosen({replace(LAYOUTS[0], batch_tokens=256): 103.0}) == replace(
        LAYOUTS[0], batch_tokens=128
    )
    assert chosen({replace(LAYOUTS[0], batch_tokens=256): 104.0}) == replace(
        LAYOUTS[0], batch_tokens=256
    )


def test_a_provider_without_memory_is_left_out(
    bundle_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*arguments: Any, provider: str, **options: Any) -> Runtime:
        if provider == "openvino":
            raise DeviceFull("the memory is full")
        return Runtime(*arguments, provider=provider, **options)

    monkeypatch.setattr(tuning, "Runtime", full)
    layouts = Machine(bundle_path, "fp32", seconds=0, rounds=1).layouts()
    assert {options.provider for options in layouts} == {"cpu"}
    assert "openvino is left out: the memory is full" in capsys.readouterr().out


def test_the_service_reads_the_tuned_settings(
    bundle_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    out = Path("tuned.env")
    example = EXAMPLES[-1].replace("my-bundle", str(bundle_path))
    arguments = [*shlex.split(example)[2:], "--seconds", "0.01", "--rounds", "1"]
    monkeypatch.setattr(tuning, "BATCH_TOKENS", (64, 512))
    monkeypatch.setenv("HEADLIGHT_CACHE", str(tmp_path / "cache"))
    assert main(arguments) == 0
    variables = dict(line.split("=") for line in out.read_text(encoding="utf-8").splitlines())
    config = Config.parse(["--bundle", str(bundle_path)], variables)
    assert variables["HEADLIGHT_PRECISION"] == "fp32"
    assert config.batch_tokens in (64, 512)
    runtime = load(config)
    assert (runtime.provider, runtime.workers.streams) == (config.provider, config.streams)
    lines = capsys.readouterr().out.splitlines()
    [begin] = [at for at, line in enumerate(lines) if line.startswith("once more")]
    last = lines[begin + 1 : -1]
    assert sum("chosen" in line for line in last) == 1
    assert {line.split()[2] for line in last if "as it starts" in line} == {"cpu,", "openvino,"}
    assert lines[-1].startswith(f"wrote {out}")


def test_a_precision_that_no_provider_has_is_an_error(
    bundle_path: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([str(bundle_path), "--out", str(tmp_path / "out"), "--precision", "int8"]) == 2
    told = capsys.readouterr()
    assert "cpu is left out: no embed graph for cpu/int8" in told.out
    assert "no provider has this precision here" in told.err
    assert not (tmp_path / "out").exists()


def test_rounds_that_are_none_are_refused(
    bundle_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([str(bundle_path), "--rounds", "0"])
    assert "--rounds: must be a whole number from 1" in capsys.readouterr().err
