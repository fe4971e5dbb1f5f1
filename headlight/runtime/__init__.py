"""The engine without a service: open a bundle and encode. Needs the extra [runtime]."""

from headlight.runtime.bundle import Bundle
from headlight.runtime.engine import Engine
from headlight.runtime.items import EncodeItem, ItemResult, Selection
from headlight.runtime.manifest import Manifest
from headlight.runtime.runtime import Runtime
from headlight.runtime.tokenizer import Tokenizer
from headlight.runtime.values import Tokenized

__all__ = [
    "Bundle",
    "EncodeItem",
    "Engine",
    "ItemResult",
    "Manifest",
    "Runtime",
    "Selection",
    "Tokenized",
    "Tokenizer",
]
