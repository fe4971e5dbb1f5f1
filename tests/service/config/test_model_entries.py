"""The file of --models, and several MODELs: the options of each, and errors that name the entry."""

from __future__ import annotations

from pathlib import Path

import pytest

from headlight_service.config.command_line import ConfigError
from headlight_service.config.model_entries import entries_of
from headlight_service.config.options import Config

TWO = """
[[model]]
source = "/models/docs"
name = "docs"
aliases = ["stable", "search"]
max_items = 8
warm_up_lengths = [16, 32]

[[model]]
source = "org/multilingual"
revision = "v2"
precision = "int8"
weight = 2
default = true
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "models.toml"


def test_options_are_the_defaults_of_every_entry(file: Path) -> None:
    file.write_text(TWO, encoding="utf-8")
    arguments = ("--models", str(file), "--max-items", "4", "--attention", "off")
    one, other = entries_of(Config.parse(arguments, {}))
    assert one.config.model == ("/models/docs",)
    assert one.config.served_model_name == ("docs", "stable", "search")
    assert (one.config.max_items, other.config.max_items) == (8, 4)
    assert one.config.warm_up_lengths == (16, 32)
    assert (other.config.revision, other.config.precision) == ("v2", "int8")
    assert {one.config.attention, other.config.attention} == {"off"}
    assert (one.config.weight, other.config.weight) == (1.0, 2.0)
    assert (one.default, other.default) == (False, True)


def test_several_models_of_the_command_line_have_its_options() -> None:
    entries = entries_of(Config.parse(("a", "b", "--max-items", "4"), {}))
    assert [(each.config.model, each.config.max_items) for each in entries] == [
        (("a",), 4),
        (("b",), 4),
    ]
    with pytest.raises(ConfigError, match="--served-model-name is for one model"):
        Config.parse(("a", "b", "--served-model-name", "c"), {})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", r"write a \[\[model\]\] table for each model"),
        ("model = 3", r"write a \[\[model\]\] table for each model"),
        ("[server]", "server is not known"),
        ("[[model", "is not TOML"),
        ("[[model]]\nname = 'a'", r"\[\[model\]\] 1 \(a\): source is missing"),
        ("[[model]]\nsource = 'a'\nmax_item = 3", r"max_item is not known .*max_items"),
        ("[[model]]\nsource = 'a'\nstreams = 3", "streams is of the whole process"),
        ("[[model]]\nsource = 'a'\nmax_items = 0", "max_items is '0'; it must be a whole"),
        ("[[model]]\nsource = 'a'\nname = 'b c'", "name is 'b c'; it must be names"),
        ("[[model]]\nsource = 'a'\naliases = ['b']", "aliases needs name"),
        ("[[model]]\nsource = 'a'\ndefault = 2020-01-01", "default must be a text, a number"),
        ("[[model]]\nsource = 'a'\ndefault = true\n" * 2, "several entries have default = true"),
    ],
)
def test_errors_name_file_entry_and_key(file: Path, text: str, problem: str) -> None:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=problem) as refused:
        entries_of(Config(models=file))
    assert str(file) in str(refused.value)
