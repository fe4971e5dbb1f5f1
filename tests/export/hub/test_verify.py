"""`headlight verify` where neither transformers nor sentence-transformers is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from headlight_export.verify_command import licence_of, main
from tests.export.hub.hub_server import Hub

CARD = "---\nlanguage: en\nlicense: mit\n---\nlicense: of the text\n"
CARDS = [
    (CARD, "mit"),
    ('---\r\nlicense: "apache-2.0"  # of the weights\r\n---\r\n', "apache-2.0"),
    ("---\nlanguage: en\n---\n# Model\nlicense: gpl\n\n---\n", ""),
    ("license: gpl\n---\n---\n", ""),
]


def test_a_row_names_what_was_compared_and_what_was_not(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    (hub.repositories["org/tiny"].folder / "README.md").write_text(CARD, encoding="utf-8")
    assert main(["org/tiny", "--max-length", "24"]) == 0
    out, err = capsys.readouterr()
    header, _, row, *others = filter(None, out.splitlines())
    cells = dict(zip(header.split(" | "), row.split(" | "), strict=True))
    assert header.startswith("| model | family | task | outputs | from PyTorch | ")
    assert row.startswith("| org/tiny | bert | embed | pooled, tokens, attention, hidden, ")
    assert cells["from PyTorch"].startswith("pooled ")
    assert (cells["from transformers"], cells["licence |"]) == ("", "mit |")
    for library, line in zip(("transformers", "sentence-transformers"), others, strict=True):
        assert line == f"not compared with {library}: it is not installed"
    assert "step 1 of 8: downloading" in err


@pytest.mark.parametrize(("card", "licence"), CARDS)
def test_a_licence_is_that_of_the_fields_of_a_card(card: str, licence: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(card, encoding="utf-8", newline="")
    assert licence_of(tmp_path / "README.md") == licence


def test_a_model_that_cannot_be_served_is_one_line(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["org/nothing", "--format", "json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1].startswith("verify: there is no model org/nothing on the Hub")
    assert "model.safetensors" not in hub.sent
