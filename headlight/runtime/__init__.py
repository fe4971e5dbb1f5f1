"""In-process inference without a service: open a bundle and encode. Needs the extra [runtime]."""

from headlight.extras import require

require("headlight.runtime", "runtime", "onnxruntime", "tokenizers")

from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.bundle.manifest import Manifest
from headlight.runtime.encode_items import EncodeItem, ItemResult, Selection
from headlight.runtime.engine.engine import Engine
from headlight.runtime.runtime import Runtime
from headlight.runtime.tokenization.tokenizer import Tokenizer
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
