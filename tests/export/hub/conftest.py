"""A Hub on loopback, in place of the real one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from tests.bert_folder import write_bert
from tests.export.hub.hub_server import Hub, Repository


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A Hub with org/tiny: a small BERT, a pickle and code beside it."""
    folder = write_bert(tmp_path / "tiny")
    (folder / "pytorch_model.bin").write_bytes(b"pickled")
    (folder / "modeling.py").write_text("raise SystemExit", encoding="utf-8")
    hub = Hub()
    hub.repositories["org/tiny"] = Repository(folder)
    with hub.running():
        # huggingface_hub has read the environment already.
        monkeypatch.setattr(constants, "ENDPOINT", hub.address)
        template = f"{hub.address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield hub
