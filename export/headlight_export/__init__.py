"""Export of a PyTorch checkpoint to a bundle, with the proof that both agree.

A bundle has graphs, weights, tokenizer and manifest.
"""

from headlight.extras import require

require(
    "headlight export", "export", "torch", "onnx", "onnxscript", "safetensors", "huggingface_hub"
)
require("headlight export", "export,runtime", "onnxruntime", "tokenizers")
