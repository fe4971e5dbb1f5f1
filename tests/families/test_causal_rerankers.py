"""Decoders that rerank, compared with sentence-transformers and transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import CrossEncoder

from headlight.errors import InvalidInput
from headlight.runtime import Runtime
from headlight_export.folders.model_folder import Refused
from headlight_export.folders.origin import read_origin
from headlight_export.writer.bundle_writer import export_origin
from tests.families.decoders import CHAT, LONGEST, TEXT, write_decoder
from tests.families.scorers import write_scorer

transformers.logging.set_verbosity_error()

QUERY = "what is red?"
# Ragged, two alike, with special tokens, and some of more tokens than the model takes.
DOCUMENTS = [
    "a planet is red.",
    "mars",
    "green is a colour of grass and of leaves, and of much else too, as of frogs",
    "mars",
    "red\n",
    "<|im_end|> yes",
    "it is the sky that is blue, and the sea below it. " * 4,
]


def test_a_decoder_scores_and_orders_as_cross_encoder(tmp_path: Path) -> None:
    write_decoder(tmp_path / "model", "Qwen3", "CausalLM", chat=CHAT)
    theirs = CrossEncoder(str(tmp_path / "model"), device="cpu", prompts={"blue": "Find the blue"})
    theirs.save(str(tmp_path / "saved"))
    pairs = [(QUERY, document) for document in DOCUMENTS]
    expected = {
        name: theirs.predict(pairs, activation_fn=torch.nn.Identity(), prompt_name=name)
        for name in (None, "blue")
    }
    assert np.ptp(expected[None]) > 0.5
    assert np.abs(expected[None] - expected["blue"]).min() > 1e-3
    result = export_origin(read_origin(tmp_path / "saved"), tmp_path / "bundle")
    assert result.transformers.errors["scores"] <= 1e-5
    with Runtime(tmp_path / "bundle") as runtime:
        assert (runtime.model().task, runtime.model().activation) == ("rerank", "sigmoid")
        for name, logits in expected.items():
            together = runtime.scores(pairs, prompt_name=name, truncate="end")
            alone = [runtime.scores([pair], prompt_name=name, truncate="end")[0] for pair in pairs]
            for found in (together, alone):
                assert [each.cut_tokens > 0 for each in found] == [False] * 6 + [True]
                for each, logit in zip(found, logits, strict=True):
                    assert abs(each.logits[0] - logit) <= 1e-5 * max(1.0, abs(logit))
        order = [each.index for each in runtime.rerank(QUERY, DOCUMENTS)]
        assert (np.diff(expected[None][order]) <= 1e-5).all()  # two are alike


@pytest.mark.parametrize(
    ("kind", "use"),
    [("Qwen2", "CausalLM"), ("Qwen2", "SequenceClassification"), ("Gemma3Text", "CausalLM")],
)
def test_a_decoder_scores_by_the_template_of_a_file(kind: str, use: str, tmp_path: Path) -> None:
    values = {"num_labels": 1, "pad_token_id": 0} if use != "CausalLM" else {}
    model = write_decoder(tmp_path / "model", kind, use, values=values)
    (tmp_path / "template.txt").write_text(TEXT, encoding="utf-8")
    origin = read_origin(
        tmp_path / "model",
        task="rerank",
        pair_template=tmp_path / "template.txt",
        score_tokens=("1", "0") if use == "CausalLM" else (),
    )
    result = export_origin(origin, tmp_path / "bundle")
    assert result.transformers.errors["scores"] <= 1e-5
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    one, zero = tokenizer.convert_tokens_to_ids(["1", "0"])
    before, after = TEXT.removesuffix("\n").format(query=QUERY, document="\0").split("\0")
    suffix = tokenizer(after, add_special_tokens=False).input_ids
    with Runtime(tmp_path / "bundle") as runtime:
        ranked = {each.index: each for each in runtime.rerank(QUERY, DOCUMENTS)}
        for at, document in enumerate(DOCUMENTS):
            ids = tokenizer(before + document + after, add_special_tokens=False).input_ids
            assert ranked[at].cut_tokens == max(0, len(ids) - LONGEST)
            if len(ids) > LONGEST:  # the document ends with a space, which no token joins with it
                assert ids[-len(suffix) :] == suffix
                ids = ids[: LONGEST - len(suffix)] + suffix
            with torch.inference_mode():
                logits = model(torch.tensor([ids])).logits[0]
            score = float(logits[-1, one] - logits[-1, zero] if use == "CausalLM" else logits[0])
            assert ranked[at].logit == pytest.approx(score, abs=1e-5 * max(1.0, abs(score)))
        with pytest.raises(InvalidInput, match="query"):
            runtime.rerank("what is red? " * 30, ["mars"])


def test_a_decoder_without_a_template_or_tokens_is_refused(tmp_path: Path) -> None:
    write_decoder(tmp_path, "Qwen3", "CausalLM", values={"classifier_from_token": ["0", "1"]})
    (template := tmp_path / "template").write_text(TEXT, encoding="utf-8")
    with pytest.raises(Refused, match="if to rerank with --task rerank"):
        read_origin(tmp_path)
    with pytest.raises(Refused, match="--pair-template FILE"):
        read_origin(tmp_path, task="rerank")
    for tokens, problem in ((("nay",), "nay"), (("1", "0", "yes"), "one or two")):
        with pytest.raises(Refused, match=problem):
            read_origin(tmp_path, task="rerank", pair_template=template, score_tokens=tokens)
    with pytest.raises(Refused, match="leave it out"):
        read_origin(tmp_path, task="embed", pair_template=template)
    rows = read_origin(tmp_path, task="rerank", pair_template=template)  # as vLLM names tokens
    named = read_origin(tmp_path, task="rerank", pair_template=template, score_tokens=("1", "0"))
    assert rows.score_tokens == named.score_tokens
    vectors = read_origin(tmp_path, task="embed").encoder
    assert vectors.config.score_head is None


def test_a_prompt_goes_before_the_query_as_in_cross_encoder(tmp_path: Path) -> None:
    write_scorer(tmp_path / "model", "bert", "SequenceClassification", 1)
    theirs = CrossEncoder(
        str(tmp_path / "model"),
        device="cpu",
        prompts={"find": "find: ", "none": ""},
        default_prompt_name="find",
    )
    theirs.save(str(tmp_path / "saved"))
    export_origin(read_origin(tmp_path / "saved"), tmp_path / "bundle")
    pairs = [("red?", document) for document in ("mars", "a planet", "grass is green " * 5)]
    with Runtime(tmp_path / "bundle") as runtime:
        for name in (None, "find", "none"):
            logits = theirs.predict(pairs, activation_fn=torch.nn.Identity(), prompt_name=name)
            found = runtime.scores(pairs, prompt_name=name, truncate="end")
            np.testing.assert_allclose([each.logits[0] for each in found], logits, atol=1e-5)
