"""Data that a model of a few neurons learns in seconds."""

from __future__ import annotations

import numpy as np
import pytest

from headlight_model.train.data.batches import Data, Pairs
from headlight_model.train.data.tasks import TASKS
from headlight_model.train.data.tokenizer import CLS_ID, SEP_ID, SPECIALS
from headlight_model.train.recipe import QUICK


@pytest.fixture
def counting_data() -> Data:
    """Ids that count upwards and wrap round: whoever knows the neighbours knows the hidden one."""
    ids = np.arange(4000) % 20 + len(SPECIALS)
    queries = [[CLS_ID, 10 + index, SEP_ID] for index in range(3 * QUICK.pairs)]
    documents = [[CLS_ID, 40 + index, 41 + index, SEP_ID] for index in range(3 * QUICK.pairs)]
    pairs = dict.fromkeys(TASKS, Pairs([], [])) | {"summary": Pairs(queries, documents)}
    return Data(ids.astype(np.int64), pairs)
