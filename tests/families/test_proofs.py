"""The lists of families in docs/site/models.toml, against the models that these tests compare."""

from __future__ import annotations

import tomllib
from pathlib import Path

from docs.site import models
from tests.families.described import DESCRIBED
from tests.families.models import MODELS
from tests.families.scorers import KINDS
from tests.families.test_sparse import SPARSE

SAME = {"gemma3_text": "gemma3", "xlm-roberta": "roberta"}  # another model of the same code
COMPARED = {
    "embed": {*MODELS, *DESCRIBED},
    "rerank": {*KINDS},
    "classify": {*KINDS},
    "sparse": {name.removeprefix("plain ") for name, *_ in SPARSE},
    "multi_vector": {"bert"},
}


def test_each_family_of_the_list_is_compared_for_its_task() -> None:
    proofs = tomllib.loads(models.DATA.read_text(encoding="utf-8"))["proofs"]
    assert proofs.keys() == COMPARED.keys()
    for task, proof in proofs.items():
        names = {SAME.get(family, family) for family in proof["families"]}
        assert names <= COMPARED[task], task
        for name in proof["tests"]:
            assert (Path(__file__).parent / f"{name}.py").is_file()
