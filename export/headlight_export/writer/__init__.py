"""Writing of a bundle: graphs, weights and golden inputs."""
