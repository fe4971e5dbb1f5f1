"""Mutations of the gRPC messages of a call: false prefixes, and undecodable messages."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.chaos.http2.frames import message

PREFIX_BYTES = 5


def a_length_that_lies(sent: list[bytes], chance: random.Random) -> None:
    at = chance.randrange(len(sent))
    data = sent[at][PREFIX_BYTES:]
    lengths = (0, len(data) - 1, len(data) + 1, 1 << 22, (1 << 31) - 1, (1 << 32) - 1)
    sent[at] = message(data, length=max(0, chance.choice(lengths)))


def a_compressed_flag_that_lies(sent: list[bytes], chance: random.Random) -> None:
    at = chance.randrange(len(sent))
    sent[at] = bytes([chance.choice((1, 2, 0x80, 0xFF))]) + sent[at][1:]


def a_message_cut_short(sent: list[bytes], chance: random.Random) -> None:
    sent[-1] = sent[-1][: chance.randrange(len(sent[-1]) + 1)]


def no_message(sent: list[bytes], chance: random.Random) -> None:
    sent[:] = [b""]


def messages_again(sent: list[bytes], chance: random.Random) -> None:
    sent += sent * chance.randint(1, 20)


def empty_messages(sent: list[bytes], chance: random.Random) -> None:
    sent[:] = [message(b"")] * chance.choice((1, 2, 500))


def bits_of_the_message(sent: list[bytes], chance: random.Random) -> None:
    at = chance.randrange(len(sent))
    data = bytearray(sent[at] or bytes(1))
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(data))
        data[place] ^= 1 << chance.randrange(8)
    sent[at] = bytes(data)


MUTATIONS: tuple[Callable[[list[bytes], random.Random], None], ...] = (
    a_length_that_lies,
    a_compressed_flag_that_lies,
    a_message_cut_short,
    no_message,
    messages_again,
    empty_messages,
    bits_of_the_message,
)
