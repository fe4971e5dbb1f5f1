from __future__ import annotations

import pytest

from headlight_model.texts import corpus
from headlight_model.texts.corpus import PROSE_MODULE, Part, Source
from headlight_model.train.data import tasks

CODE = Source(
    "shop",
    '''
def price(goods):
    """Sum up the goods. Taxes are part of it. Fine.

    Discounts come last of all.
    """
    # The first comment
    # goes on for a line.
    total = sum(goods)  # not this one

    # Fix!
    return total.round_up(goods)


def of():
    return 1
''',
)


def test_code_gives_pairs() -> None:
    found = list(tasks.code_pairs(CODE))
    document = "shop def price ( goods ) total sum goods round up"
    assert found == [
        ("summary", ("Sum up the goods.", document)),
        ("sentence", ("Taxes are part of it.", document)),
        ("sentence", ("Discounts come last of all.", document)),
        ("rest", ("Sum up the goods.", "Taxes are part of it. Discounts come last of all.")),
        ("name", ("price", "( goods ) total sum goods round up")),
        ("comment", ("The first comment goes on for a line.", "total sum goods")),
    ]


def test_prose_gives_pairs() -> None:
    text = "A statement does things. It has a syntax.\n\nOne sentence alone here."
    assert list(tasks.prose_pairs(Source(PROSE_MODULE, text))) == [
        ("rest", ("A statement does things.", "It has a syntax.")),
    ]


@pytest.mark.usefixtures("small_library")
def test_each_part_has_its_own_pairs() -> None:
    found = {part: tasks.pairs(corpus.sources(), part) for part in Part}
    assert all(found[Part.TRAINING][task] for task in tasks.TASKS)
    said = {part: {document for _, document in found[part]["summary"]} for part in Part}
    assert any("fraction limit denominator" in document for document in said[Part.TEST])
    assert said[Part.TEST].isdisjoint(said[Part.TRAINING] | said[Part.VALIDATION])


def test_training_has_no_texts_of_other_parts() -> None:
    learnt = Source("a", 'def sort(rows):\n    """Sort some rows."""\n', "a-package")
    kept = Source("b", 'def order(rows):\n    """SORT some rows."""\n', "click")
    other = Source("c", 'def close(rows):\n    """Close the shop."""\n', "a-package")
    assert kept.part is Part.TEST
    found = tasks.pairs([learnt, kept, other], Part.TRAINING)["summary"]
    assert found == [("Close the shop.", "c def close ( rows )")]


def test_source_that_cannot_be_parsed_has_no_pairs() -> None:
    assert list(tasks.code_pairs(Source("template", "def {name}():"))) == []


def test_shares_sum_to_one() -> None:
    assert sum(tasks.TASKS.values()) == pytest.approx(1)
