"""Export of a PyTorch checkpoint to a bundle.

A bundle has graphs, weights, tokenizer and manifest, and the proof that they agree with PyTorch.
"""

from headlight.extras import require

require("headlight export", "export", "torch", "onnx", "onnxscript", "safetensors")
require("headlight export", "export,runtime", "onnxruntime", "tokenizers")
