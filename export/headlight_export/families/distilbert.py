"""DistilBERT. Its sinusoidal positions are a table in the file, too."""

from __future__ import annotations

from torch import Tensor

from headlight_export.families import bert
from headlight_export.families.source import Config, Weights
from headlight_export.families.words import activation
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

IDLE = (*bert.IDLE, "vocab_", "pre_classifier.")


def convert(config: Config, tensors: dict[str, Tensor], longest: int | None) -> Encoder:
    """Convert a DistilBERT folder; see `headlight_export.families.Convert`."""
    rows = config.get(int, "max_position_embeddings", default=512, least=1)
    built = EncoderConfig(
        vocab_size=config.get(int, "vocab_size"),
        dim=config.get(int, "dim", "hidden_size"),
        heads=config.get(int, "n_heads", "num_attention_heads"),
        layers=config.get(int, "n_layers", "num_hidden_layers"),
        ffn_dim=config.get(int, "hidden_dim"),
        positions="learned",
        norm="post",
        norm_eps=1e-12,  # of every DistilBERT; its config does not have it
        activation=activation(config, "activation"),
        normalize=False,
        trained_length=rows,
        max_length=rows,
        pad_id=config.get(int, "pad_token_id", default=0),
    )
    weights = Weights(built, tensors, ("distilbert.",), IDLE)
    weights.move("embedding.weight", "embeddings.word_embeddings.weight")
    weights.move("positions.table.weight", "embeddings.position_embeddings.weight")
    weights.move_norm("embedding_norm", "embeddings.LayerNorm")
    for at in range(built.layers):
        ours, layer = f"blocks.{at}", f"transformer.layer.{at}"
        weights.move_linear(
            f"{ours}.attention.project_in", *(f"{layer}.attention.{part}_lin" for part in "qkv")
        )
        weights.move_linear(f"{ours}.attention.project_out", f"{layer}.attention.out_lin")
        weights.move_norm(f"{ours}.attention_norm", f"{layer}.sa_layer_norm")
        weights.move_linear(f"{ours}.feed_forward.up", f"{layer}.ffn.lin1")
        weights.move_linear(f"{ours}.feed_forward.down", f"{layer}.ffn.lin2")
        weights.move_norm(f"{ours}.feed_forward_norm", f"{layer}.output_layer_norm")
    return weights.build()
