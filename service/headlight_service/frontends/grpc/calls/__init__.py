"""Parts that every contract over gRPC shares: services from descriptors, replies, streams."""
