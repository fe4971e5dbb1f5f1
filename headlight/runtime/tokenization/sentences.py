"""Sentences of a text, by a rule without a model. docs/span-vectors.md has the rule in words."""

from __future__ import annotations

import re

from headlight.spec import Span

WITHOUT_SPACE = frozenset("。！？｡")  # they end a sentence without a space behind them
ELLIPSES = ("…", "..")
# Possessive, so that every character is read once.
ENDS = re.compile(
    r"(?P<marks>[.!?…।॥؟۔։።。！？｡]++)"
    r"(?P<closers>[\"'”’»›)\]}」』）】》〉*_`]*+)(?P<space>\s*+)"
    r"|\n[^\S\n]*+\n\s*+|\u2029\s*+"
)
BLANK_LINE = re.compile(r"\n[^\S\n]*+\n|\u2029")
LONGEST_ABBREVIATION = 16  # characters read before a full stop
OPENERS = "\"'“‘«‹([{「『（【《〈*_`"
INITIALS = re.compile(r"[^\W\d_](?:\.[^\W\d_])*|ph\.d")  # "J", "e.g", "U.S"
# A full stop behind these ends no sentence, in any case of their letters.
NEVER_LAST = """
    approx bzw ca capt cf dept dr ed eds eq eqs esp fig figs gen ggf gov hon incl jr lt mr mrs ms mt
    nr op pp prof ref refs rep resp rev sec sen sgt sog sr st usw vgl viz vol vols vs
"""
ABBREVIATIONS = frozenset(NEVER_LAST.split())
# Behind these it does, unless a small letter, a digit or a bracket follows.
OFTEN_LAST = frozenset(("al", "avg", "co", "corp", "etc", "inc", "ltd", "max", "min"))
# Behind these it does, unless a digit follows. "May" has no full stop.
MONTHS = ("jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec")
BEFORE_DIGITS = frozenset(("no", *MONTHS))


def sentence_spans(text: str) -> tuple[Span, ...]:
    """Return the sentences of a text, in order, without the white space around them.

    They have every character of the text, except white space between them. A text of white space
    alone has none. The time is linear in the length of the text.
    """
    spans, start = list[Span](), len(text) - len(text.lstrip())
    for match in ENDS.finditer(text, start):
        if match["marks"] is None or _ends(text, start, match):
            end = match.start() if match["marks"] is None else match.end("closers")
            spans.append(_trimmed(text, start, end))
            start = match.end()
    if start < len(text):
        spans.append(_trimmed(text, start, len(text)))
    return tuple(spans)


def _ends(text: str, start: int, match: re.Match[str]) -> bool:
    """Return whether marks end the sentence that begins at `start`."""
    marks, closers, space = match.group("marks", "closers", "space")
    following = text[match.end() : match.end() + 1]
    if not following or marks[-1] in WITHOUT_SPACE or BLANK_LINE.search(space):
        return True
    if not space:
        return False
    if closers or marks.startswith(ELLIPSES):
        return not following.islower()
    next_two = text[match.end() : match.end() + 2]
    return marks != "." or not _abbreviates(text, start, match.start(), next_two)


def _abbreviates(text: str, start: int, stop: int, next_two: str) -> bool:
    """Return whether a full stop belongs to an abbreviation or to a number in a list.

    Args:
        text: the text.
        start: where its sentence begins.
        stop: where the full stop is.
        next_two: the next characters that are not white space.
    """
    following = next_two[0]
    before = text[max(start, stop - LONGEST_ABBREVIATION) : stop]
    if stop - start <= LONGEST_ABBREVIATION and before.isdecimal():
        return True  # "1. First"
    words = before.split()
    written = words[-1].lstrip(OPENERS) if words and not before[-1:].isspace() else ""
    word = written.lower()
    if len(written) == 1 and written.islower():  # "add a and b. Then", "z. B."
        return following.islower() or next_two[1:] == "."
    if word in OFTEN_LAST:
        return following.islower() or following.isdecimal() or following in "(["
    if word in BEFORE_DIGITS:
        return following.isdecimal()
    return word in ABBREVIATIONS or INITIALS.fullmatch(word) is not None


def _trimmed(text: str, start: int, end: int) -> Span:
    return Span(start, start + len(text[start:end].rstrip()))
