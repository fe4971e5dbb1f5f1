from headlight_export.families.source import Config
from headlight_export.families.words import activation


def test_aliases_of_an_activation_mean_the_same() -> None:
    found = {
        word: activation(Config({"hidden_act": word}))
        for word in ("gelu", "gelu_new", "gelu_pytorch_tanh", "swish")
    }
    assert found == {
        "gelu": "gelu",
        "gelu_new": "gelu_tanh",
        "gelu_pytorch_tanh": "gelu_tanh",
        "swish": "silu",
    }
