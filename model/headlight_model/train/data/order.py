"""Questions that only order tells apart: "subtract a from b" is `b - a`, never `a - b`.

Needs no torch.

Right and wrong answer hold the same tokens, so a bag of words finds half of them. Some templates
and some words are kept for tests.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from headlight_model.syntax import is_identifier
from headlight_model.texts.corpus import Part

# By family: question => answer. A semicolon separates templates.
TRAINED = {
    "direction": """
        convert {a} to {b} => def {a}_to_{b}(value); turn {a} into {b} => {b} = from_{a}(value);
        translate from {a} to {b} => translate({a}, {b}); copy {a} to {b} => copy({a}, {b});
        move {a} into {b} => {a}.move_to({b}); make {b} out of {a} => def {b}_from_{a}(value);
        map each {a} to its {b} => {{{a}: {b}}}; go from {a} to {b} => path({a}, {b});
        read {a} and write {b} => {b}.write({a}.read()); rename {a} to {b} => rename({a}, {b})""",
    "arguments": """
        subtract {a} from {b} => {b} - {a}; divide {a} by {b} => {a} / {b};
        append {a} to {b} => {b}.append({a}); remove {a} from {b} => {b}.remove({a});
        replace {a} with {b} => text.replace({a}, {b}); set {a} to {b} => {a} = {b};
        look up {a} in {b} => {b}[{a}]; call {a} with {b} => {a}({b}); the {a} of {b} => {b}.{a};
        raise {a} to the power of {b} => {a} ** {b}; import {a} from {b} => from {b} import {a};
        add {a} to {b} => {b}.add({a}); split {a} at {b} => {a}.split({b})""",
    "comparison": """
        {a} is less than {b} => {a} < {b}; {a} is greater than {b} => {a} > {b};
        {a} is at most {b} => {a} <= {b}; check that {a} is in {b} => {a} in {b};
        whether {a} starts with {b} => {a}.startswith({b}); {a} comes before {b} => {a} < {b};
        {a} is longer than {b} => len({a}) > len({b});
        {a} is an instance of {b} => isinstance({a}, {b})""",
    "negation": """
        {a} but not {b} => {a} and not {b}; {a} without {b} => {a} and not {b};
        not {a}, only {b} => not {a} and {b}; do {a} unless {b} => if not {b}: {a}();
        {a} if there is no {b} => if not {b}: return {a};
        if there is {a} use {b} => if {a}: use({b})""",
}
KEPT_BACK = {
    "direction": "transform {a} into {b} => {a}_into_{b}(value); send {a} to {b} => send({a}, {b})",
    "arguments": "insert {a} into {b} => {b}.insert({a}); put {a} in {b} => {b}.put({a})",
    "comparison": (
        "{a} is at least {b} => {a} >= {b}; {a} is shorter than {b} => len({a}) < len({b})"
    ),
    "negation": "{a} except when {b} => if not {b}: {a}(); {a} and no {b} => {a} and not {b}",
}
WORDS = Path(__file__).with_name("nouns.txt").read_text(encoding="utf-8").split()
WORDS_KEPT_BACK = 5  # every fifth word is for tests


@dataclasses.dataclass(frozen=True)
class Triplet:
    """Two questions and two answers of the same words: each answer is right for one question."""

    family: str
    trained: bool  # whether training sees the template
    question: str
    other_question: str
    right: str
    wrong: str


def templates(chosen: dict[str, str]) -> list[tuple[str, str, str]]:
    """Return (family, question, answer) of each template."""
    templates = []
    for family, listed in chosen.items():
        for each in re.split(r";\s", listed):
            question, _, answer = each.partition(" => ")
            templates.append((family, question.strip(), answer.strip()))
    return templates


def words(part: Part) -> list[str]:
    """Return the words that fill the templates of one part; those of tests are in no other part."""
    held = WORDS[::WORDS_KEPT_BACK]
    return held if part is Part.TEST else [word for word in WORDS if word not in held]


def triplet(
    family: str, question: str, answer: str, a: str, b: str, *, trained: bool = True
) -> Triplet:
    """Fill the blanks of a template, in both orders."""
    return Triplet(
        family,
        trained,
        question.format(a=a, b=b),
        question.format(a=b, b=a),
        answer.format(a=a, b=b),
        answer.format(a=b, b=a),
    )


def fillers(pieces: Iterable[str]) -> list[str]:
    """Return the names of a vocabulary that may fill the training templates.

    The nouns of the tests are left out.
    """
    held = set(words(Part.TEST))
    return [piece for piece in pieces if is_identifier(piece) and piece not in held]


def draw(random: np.random.Generator, count: int, names: Sequence[str]) -> list[Triplet]:
    """Draw `count` triplets to learn from, half of them filled with nouns, half with `names`.

    With two hundred nouns alone a model learns them by heart; with thousands of names alone it does
    not begin to learn.
    """
    known, nouns = templates(TRAINED), words(Part.TRAINING)
    return [
        triplet(
            *known[random.integers(len(known))],
            *random.choice(names if number % 2 else nouns, size=2, replace=False).tolist(),
        )
        for number in range(count)
    ]


def questions(each: int = 20) -> Iterator[Triplet]:
    """Yield the triplets of the evaluation: `each` of every template, always the same."""
    fill = words(Part.TEST)
    random = np.random.default_rng(0)
    for trained, chosen in ((True, TRAINED), (False, KEPT_BACK)):
        for family, question, answer in templates(chosen):
            for _ in range(each):
                a, b = random.choice(fill, size=2, replace=False).tolist()
                yield triplet(family, question, answer, a, b, trained=trained)
