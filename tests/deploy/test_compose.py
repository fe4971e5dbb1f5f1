"""deploy/compose: nothing is wrong with it, and what would be is found."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from deploy.check import compose
from deploy.check.rendering import DEPLOY
from headlight.runtime.bundle.bundle import Bundle
from headlight_service.app.resources import resources_of
from headlight_service.config.options import Config

BUNDLE = DEPLOY.parent / "build/bundles/docs-rope"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The compose file to break, with all that it names."""
    for name in ("compose", "prometheus", "grafana", "image"):
        shutil.copytree(DEPLOY / name, tmp_path / "deploy" / name)
    (tmp_path / "build").symlink_to(DEPLOY.parent / "build")
    return tmp_path / "deploy/compose/compose.yaml"


def test_nothing_is_wrong() -> None:
    assert compose.breaches() == []


class Break(NamedTuple):
    """A fault in a file of deploy/compose: the text before and after, and part of the report."""

    name: str
    was: str
    broken: str
    said: str


BREAKS = {
    "the schema": (Break("compose.yaml", "mem_limit: 5g", "memory_limit: 5g", "memory_limit"),),
    "many": (
        Break("compose.yaml", "127.0.0.1:9090:9090", "9090:9090", "prometheus: CL-0005"),
        Break("compose.yaml", "read_only: true", "read_only: false", "CL-0007"),
        Break("compose.yaml", '["no-new-privileges:true"]', "[]", "CL-0003"),
        Break("compose.yaml", "headlight.json:ro", "headlight.json", "headlight.json is mounted"),
        Break("compose.yaml", "- grafana:/var", "- data:/var", "volume data is not declared"),
        Break("compose.yaml", "image/Dockerfile #", "image/Dockerfile.bundle #", "is built by"),
        Break("compose.yaml", "bundles/docs-rope", "bundles/none", "bundles/none is no bundle"),
        Break("compose.yaml", "_OUTPUT_BYTES: ", "_OUTPUT_BYTE: ", "OUTPUT_BYTE is no option"),
        Break("compose.yaml", "../prometheus:/etc/headlight/", "../prometheus:/etc/", "is not at"),
        Break(
            "compose.yaml", "condition: service_healthy", "condition: service_started", "healthy"
        ),
        Break("prometheus.yaml", "headlight:8080", "headlight:8081", "headlight:8081 is no"),
        Break(
            "grafana/datasources.yaml", "prometheus:9090", "prometheus:909", "grafana: prometheus:9"
        ),
        Break("grafana/dashboards.yaml", "/dashboards}", "/boards}", "no dashboard is mounted"),
    ),
    "what would hide others": (
        Break("compose.yaml", "134217728", "1024", "--max-output-bytes is too small"),
        Break("compose.yaml", "./prometheus.yaml:/", "./prom.yaml:/", "prom.yaml does not exist"),
    ),
    "a configuration": (
        Break("prometheus.yaml", "rule_files", "rules_files", "field rules_files not found"),
    ),
}


@pytest.mark.parametrize("kind", BREAKS)
def test_what_is_broken_is_found(copied: Path, kind: str) -> None:
    """Many in one run: each run starts a linter and promtool."""
    for each in BREAKS[kind]:
        path = copied.parent / each.name
        text = path.read_text(encoding="utf-8")
        assert each.was in text
        path.write_text(text.replace(each.was, each.broken), encoding="utf-8")
    found = compose.breaches(copied)
    missing = [each for each in BREAKS[kind] if not any(each.said in line for line in found)]
    assert missing == [], found


def test_a_stage_of_the_image_takes_the_bundle(copied: Path) -> None:
    recipe = copied.parents[1] / compose.RECIPE
    text = recipe.read_text(encoding="utf-8")
    recipe.write_text(text.replace("FROM scratch AS bundle", ""), encoding="utf-8")
    assert any("has no stage bundle" in line for line in compose.breaches(copied))


def test_its_memory_is_enough() -> None:
    service = yaml.safe_load(compose.COMPOSE.read_text(encoding="utf-8"))["services"]["headlight"]
    output = int(service["environment"]["HEADLIGHT_MAX_OUTPUT_BYTES"])
    config = Config(max_output_bytes=output)
    needed = resources_of(config, Bundle(BUNDLE).manifest, service["cpus"]).memory
    assert needed <= int(service["mem_limit"].removesuffix("g")) << 30
