"""Special tokens spelled out in texts, through the service.

The option of the process, and that of a request.
"""

from __future__ import annotations

import pytest

from headlight import AttentionSpec, Client
from headlight.cli.commands import main
from tests.system.conftest import bundle_of
from tests.system.processes import Service

TEXT = "open [SEP] file"


def test_special_tokens_are_parsed_unless_a_request_says_text(rope: Service) -> None:
    with Client(rope.target) as client:
        assert client.model().special_tokens == "parse"
        [parsed], [plain] = client.tokenize(TEXT), client.tokenize(TEXT, special_tokens="text")
        assert parsed.pieces == ("[CLS]", "open", "[SEP]", "file", "[SEP]")
        assert parsed.special == (True, False, True, False, True)
        assert (parsed.starts[2], parsed.ends[2]) == (5, 10)
        assert [at for at, special in enumerate(plain.special) if special] == [0, len(plain) - 1]
        assert plain.ids.count(parsed.ids[2]) == 1
        one, other = client.encode([TEXT]), client.encode([TEXT], special_tokens="text")
        assert one.tolist() == client.encode([list(parsed.ids)]).tolist()
        assert other.tolist() == client.encode([list(plain.ids)]).tolist()
        assert client.occlusion(TEXT).places == (1, 3)
        assert len(client.occlusion(TEXT, special_tokens="text").places) == len(plain) - 2
        spec = AttentionSpec.of(-1, drop_special=True)
        [without], [whole] = (
            client.attention(TEXT, spec),
            client.attention(TEXT, spec, special_tokens="text"),
        )
        assert without.values.shape[-2:] == (2, 2)
        assert whole.values.shape[-2:] == (len(plain) - 2,) * 2


def test_the_service_option_reads_special_tokens_as_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with (
        Service(bundle_of("docs-rope"), "--special-tokens", "text") as service,
        Client(service.target) as client,
    ):
        assert client.model().special_tokens == "text"
        [usual], [parsed] = client.tokenize(TEXT), client.tokenize(TEXT, special_tokens="parse")
        assert sum(usual.special) == 2
        assert sum(parsed.special) == 3
        assert main(["tokens", TEXT, "--special-tokens", "parse", "--target", service.target]) == 0
        assert capsys.readouterr().out.count("(special)") == 3
        assert main(["info", "--target", service.target]) == 0
        assert "special tokens" in capsys.readouterr().out
