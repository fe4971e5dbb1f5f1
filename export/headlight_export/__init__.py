"""From a PyTorch checkpoint to a bundle: graphs, weights, tokenizer, manifest, and the proof that they agree with PyTorch."""

from headlight.extras import require

require("headlight export", "export", "torch", "onnx", "onnxscript", "safetensors")
require("headlight export", "export,runtime", "onnxruntime", "tokenizers")
