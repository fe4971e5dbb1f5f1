"""From text to token ids and offsets."""
