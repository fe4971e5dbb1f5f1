"""Page of named models: it is what its command writes, and the command checks each row."""

from __future__ import annotations

import copy
import tomllib
from typing import Any

import pytest

from docs.site import models

DATA = tomllib.loads(models.DATA.read_text(encoding="utf-8"))


def with_row(**fields: Any) -> dict[str, Any]:
    """Return the data with one row: the first, changed."""
    data = copy.deepcopy(DATA)
    return data | {"model": [data["model"][0] | fields]}


def test_the_page_is_what_the_command_writes() -> None:
    """If this fails: python -m docs.site.models."""
    assert models.PAGE.read_text(encoding="utf-8") == models.page(DATA)
    names = [model["name"] for model in DATA["model"]]
    assert len(names) == len(set(names)) >= 20
    assert [model["name"] for model in DATA["model"] if model.get("real")] == names[:1]


def test_a_row_says_what_an_export_makes_of_its_config() -> None:
    classes = {"architectures": ["BertForSequenceClassification"]}
    reranker = {"config": DATA["model"][0]["config"] | classes, "pools": False}
    row = models.read_row(with_row(**reranker)["model"][0])
    assert (row.task, "scores" in row.outputs, "pooled" in row.outputs) == ("rerank", True, False)
    assert models.read_row(with_row(**reranker, labels=2)["model"][0]).task == "classify"
    m3 = models.read_row(with_row(heads=True)["model"][0])
    assert (m3.task, {"pooled", "sparse", "multi_vector"} - {*m3.outputs}) == ("embed", set())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"config": {"model_type": "albert"}}, "'albert' is not a supported family: its layers"),
        ({"config": {"model_type": "bert", "is_decoder": True}}, "is_decoder is True"),
        ({"config": {"model_type": "roformer"}, "real": False}, r"\[proofs.embed\] lacks roformer"),
        ({"config_from": "hearsay"}, "there is no source hearsay"),
        ({"license": "mit"}, "there is no field license"),
    ],
)
def test_a_row_that_does_not_hold_is_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=rf"^models.toml, {DATA['model'][0]['name']}: .*{message}"):
        models.page(with_row(**fields))
