"""The thread-based gRPC server, and its bridge to the event loop."""
