"""Libraries that open and run graphs: ONNX Runtime on CPU and CUDA, OpenVINO."""
