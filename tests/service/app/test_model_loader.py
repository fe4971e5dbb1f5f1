"""The loader within this process: what is served while a file of models is read again."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headlight.errors import NotFound
from headlight.pb import admin_pb2 as pb
from headlight_service.app import model_versions
from headlight_service.app.admin_servicer import AdminServicer
from headlight_service.app.model_loader import ModelLoader
from headlight_service.app.startup_steps import StartupSteps
from headlight_service.config.options import Config
from headlight_service.core.models import Models, ServedModel
from headlight_service.telemetry.metrics import Metrics
from tests.service.fakes import FakeRuntime


class Served:
    """A loader of a file, its models, and the names that were served when each load began."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.models = Models()
        config = Config(models=folder / "models.toml")
        self.loader = ModelLoader(config, self.models, Metrics(), StartupSteps())
        self.at_loads = list[dict[str, str]]()

    def write_bundle(self, name: str, version: str, **changes: Any) -> None:
        """Write the folder of a model, of which only the manifest is read."""
        bundle = self._folder / name
        bundle.mkdir(exist_ok=True)
        fields = {"name": name, "version": version, **changes}
        (bundle / "manifest.json").write_text(json.dumps(fields), encoding="utf-8")

    def write_file(self, *entries: str) -> None:
        """Write the file; an entry is the name of a bundle, and further lines."""
        tables = [f"[[model]]\nsource = '{self._folder}/{entry}" for entry in entries]
        (self._folder / "models.toml").write_text("\n".join(tables), encoding="utf-8")

    def load(self, config: Config, steps: StartupSteps) -> FakeRuntime:
        """Take the place of the loading of a runtime."""
        self.at_loads.append(self.versions())
        assert config.bundle is not None
        return FakeRuntime(**json.loads((config.bundle / "manifest.json").read_text("utf-8")))

    def versions(self) -> dict[str, str]:
        """Return the version that each name leads to; "" is the default model."""
        default = {} if self.models.default is None else {"": self.models.default.ref.version}
        return default | {name: each.ref.version for name, each in self.models.by_name.items()}

    async def run(self, work: Callable[..., Any], *arguments: str) -> Any:
        return await asyncio.wrap_future(self.loader.submit(work, *arguments))


@pytest.fixture
async def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    made = Served(tmp_path)
    monkeypatch.setattr(model_versions, "load", made.load)
    yield made
    await made.loader.close()


ONE, TWO = "one'\nname = 'search'", "two'\nname = 'next'"


async def test_a_changed_file_moves_names_only_once_all_its_models_are_loaded(
    served: Served,
) -> None:
    for name in ("one", "two"):
        served.write_bundle(name, f"{name}.1")
    served.write_file(f"{ONE}\naliases = ['stable']", f"{TWO}\naliases = ['canary']")
    await served.run(served.loader.start)
    changed = (
        f"{ONE}\naliases = ['fresh']",
        f"{TWO}\naliases = ['stable']\ndefault = true",
        "three'\nname = 'third'\naliases = ['canary', 'latest']",
        "four'",
    )
    served.write_file(*changed)
    for name, version in (("one", 2), ("two", 2), ("three", 1)):
        served.write_bundle(name, f"{name}.{version}", pooling="cls")
    await served.run(served.loader.reload)
    before = {
        **dict.fromkeys(("", "search", "one", "stable"), "one.2"),
        **dict.fromkeys(("next", "two", "canary"), "two.2"),
    }
    assert served.at_loads[-1] == before
    assert served.versions() == before | dict.fromkeys(("third", "three"), "three.1"), (
        "four cannot be loaded, so the names stay"
    )

    served.write_bundle("four", "four.1")
    await served.run(served.loader.reload)
    assert served.at_loads[-1] == before | dict.fromkeys(("third", "three"), "three.1")
    assert served.versions() == {
        **dict.fromkeys(("search", "one", "fresh"), "one.2"),
        **dict.fromkeys(("", "next", "two", "stable"), "two.2"),
        **dict.fromkeys(("third", "three", "canary", "latest"), "three.1"),
        "four": "four.1",
    }


async def test_a_start_serves_models_of_two_tasks_by_one_name(served: Served) -> None:
    served.write_bundle("one", "1")
    served.write_bundle("two", "2", task="classify", labels=["good", "bad"])
    served.write_file(ONE, TWO.replace("next", "search"))
    await served.run(served.loader.start)
    assert [each.name for each in served.models.all] == ["search", "search@2"]


async def test_a_model_that_another_call_unloads_meanwhile_is_not_found(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        served.write_bundle(name, f"{name}.1")
    served.write_file(ONE, TWO)
    await served.run(served.loader.start)
    original = served.loader.load

    def load(name: str) -> ServedModel:
        model = original(name)
        served.loader.unload(name)
        return model

    monkeypatch.setattr(served.loader, "load", load)
    servicer = AdminServicer(served.loader, served.models)
    call = cast("Any", SimpleNamespace(client="ops", deadline=math.inf))
    with pytest.raises(NotFound, match=r"search, version one\.1, was replaced or unloaded"):
        await asyncio.to_thread(servicer.LoadModel, pb.LoadModelRequest(name="search"), call)
