"""deploy/compose: nothing is wrong with it, and what would be is found."""

from __future__ import annotations

import shutil
from pathlib import Path

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


@pytest.mark.parametrize(
    ("name", "was", "broken", "said"),
    [
        ("compose.yaml", "mem_limit: 5g", "memory_limit: 5g", "memory_limit"),
        ("compose.yaml", "127.0.0.1:9090:9090", "9090:9090", "prometheus: CL-0005"),
        ("compose.yaml", "read_only: true", "read_only: false", "CL-0007"),
        ("compose.yaml", '["no-new-privileges:true"]', "[]", "CL-0003"),
        ("compose.yaml", "./prometheus.yaml:/", "./prom.yaml:/", "./prom.yaml does not exist"),
        ("compose.yaml", "headlight.json:ro", "headlight.json", "headlight.json is mounted"),
        ("compose.yaml", "- grafana:/var", "- data:/var", "volume data is not declared"),
        ("compose.yaml", "image/Dockerfile #", "image/Dockerfile.bundle #", "is built by"),
        ("compose.yaml", "bundles/docs-rope", "bundles/none", "bundles/none is no bundle"),
        ("compose.yaml", "_OUTPUT_BYTES: ", "_OUTPUT_BYTE: ", "OUTPUT_BYTE is no option"),
        ("compose.yaml", "134217728", "1024", "--max-output-bytes is too small"),
        ("compose.yaml", "../prometheus:/etc/headlight/", "../prometheus:/etc/", "is not at"),
        ("compose.yaml", "condition: service_healthy", "condition: service_started", "healthy"),
        ("prometheus.yaml", "headlight:8080", "headlight:8081", "headlight:8081 is no service"),
        ("prometheus.yaml", "rule_files", "rules_files", "field rules_files not found"),
        (
            "grafana/datasources.yaml",
            "prometheus:9090",
            "prometheus:909",
            "grafana: prometheus:909",
        ),
        ("grafana/dashboards.yaml", "/dashboards}", "/boards}", "no dashboard is mounted"),
    ],
)
def test_what_is_broken_is_found(copied: Path, name: str, was: str, broken: str, said: str) -> None:
    path = copied.parent / name
    text = path.read_text(encoding="utf-8")
    assert was in text
    path.write_text(text.replace(was, broken), encoding="utf-8")
    found = compose.breaches(copied)
    assert any(said in line for line in found), found


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
