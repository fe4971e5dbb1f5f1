"""Data that a model of a few neurons learns in seconds."""

from __future__ import annotations

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordPiece

from headlight_model.train.data.order import WORDS
from headlight_model.train.data.stored import Data, Pairs
from headlight_model.train.data.tasks import TASKS
from headlight_model.train.data.tokenizer import CLS_ID, SEP_ID, SPECIALS, UNK, shell
from headlight_model.train.recipe import QUICK


@pytest.fixture
def counting_data() -> Data:
    """Return ids that count upwards and wrap round, so that neighbours reveal the hidden one."""
    ids = np.arange(4000) % 20 + len(SPECIALS)
    queries = [[CLS_ID, 10 + index, SEP_ID] for index in range(3 * QUICK.pairs)]
    documents = [[CLS_ID, 40 + index, 41 + index, SEP_ID] for index in range(3 * QUICK.pairs)]
    pairs = dict.fromkeys(TASKS, Pairs([], [])) | {"summary": Pairs(queries, documents)}
    return Data(ids.astype(np.int64), pairs)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """Return a vocabulary of 200 pieces, including the nouns of the order questions."""
    words = [*WORDS, "to", "from", *"(){}=.-<>_"]
    pieces = [*SPECIALS, *words[-(200 - len(SPECIALS)) :]]
    made = shell(WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token=UNK))
    made.add_special_tokens(list(SPECIALS))
    return made
