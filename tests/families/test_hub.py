"""Models of a Hub on loopback, served by their names, against sentence-transformers."""

from __future__ import annotations

from pathlib import Path

import pytest
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

from headlight import Client
from tests.export.hub.hub_server import Hub, Repository
from tests.factory import VOCABULARY, small_tokenizer
from tests.families.models import make
from tests.families.sentences import PROMPTS, SPECIAL, write_sentences
from tests.families.test_sentences import TEXTS, check
from tests.system.processes import Service


def write_family(name: str, folder: Path) -> SentenceTransformer:
    """A model of a family with a tokenizer, as sentence-transformers saves it."""
    model = make(name, vocabulary=len(VOCABULARY))
    model.save_pretrained(folder / "transformer")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=small_tokenizer(), model_max_length=48, **SPECIAL
    )
    tokenizer.save_pretrained(folder / "transformer")
    modules = [
        Transformer(str(folder / "transformer"), max_seq_length=48),
        Pooling(model.config.hidden_size, pooling_mode="mean"),
    ]
    SentenceTransformer(modules=modules, device="cpu").save(str(folder / "model"))
    return SentenceTransformer(
        str(folder / "model"), device="cpu", model_kwargs={"attn_implementation": "eager"}
    )


def write(name: str, folder: Path) -> SentenceTransformer:
    if name == "prompts and dense":
        return write_sentences(
            folder, dense=True, normalize=True, prompts=PROMPTS, default_prompt="passage"
        )
    return write_family(name, folder)


@pytest.mark.parametrize("name", ["roberta", "qwen3", "prompts and dense"])
def test_a_model_served_by_its_name_has_the_vectors_of_the_library(
    name: str, tmp_path: Path
) -> None:
    theirs = write(name, tmp_path)
    hub = Hub()
    hub.repositories["org/model"] = Repository(tmp_path / "model")
    variables = {
        "HEADLIGHT_CACHE": str(tmp_path / "cache"),
        "HF_HOME": str(tmp_path / "hf"),
        "HF_ENDPOINT": hub.address,
    }
    with (
        hub.running(),
        Service("org/model", environment=variables) as service,
        Client(service.target) as client,
    ):
        check(client.encode(TEXTS, truncate="end"), theirs.encode(TEXTS))
