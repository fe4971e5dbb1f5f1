"""Heads for scores, read from folders that transformers wrote, against its own logits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers

from headlight_export.folders.origin import read_origin
from tests.families.models import random_ids
from tests.families.scorers import KINDS, scorer

transformers.logging.set_verbosity_error()


USES = ("SequenceClassification", "TokenClassification")
HEADS = [
    (name, use)
    for name, (kind, _) in KINDS.items()
    for use in USES
    if hasattr(transformers, f"{kind}For{use}")
]


@pytest.mark.parametrize(("name", "use"), HEADS)
def test_logits_match_the_reference_code_alone_and_in_a_padded_batch(
    name: str, use: str, tmp_path: Path
) -> None:
    model = scorer(name, use, 3)
    model.save_pretrained(tmp_path)
    encoder = read_origin(tmp_path, ids_only=True).encoder
    ids, mask = random_ids(40, 3).repeat(2, 1), torch.ones(2, 40, dtype=torch.int64)
    ids[1, 9:], mask[1, 9:] = encoder.config.pad_id, 0
    with torch.inference_mode():
        theirs = model(ids, attention_mask=mask).logits
        ours = encoder(ids, mask).heads["logits"]
        alone = encoder(ids[1:, :9]).heads["logits"]
    assert float(theirs.abs().max()) > 0.5
    kept = 9 if use == "TokenClassification" else 1  # rows of the second text, without padding
    shape = (2, -1, 3)
    theirs, ours = theirs.reshape(shape), ours.reshape(shape)
    torch.testing.assert_close(ours[0], theirs[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours[1, :kept], theirs[1, :kept], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(alone.reshape(-1, 3), theirs[1, :kept], atol=1e-5, rtol=1e-5)
