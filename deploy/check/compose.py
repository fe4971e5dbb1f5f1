"""Checks of deploy/compose, as far as they need no container engine."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from deploy.check import schemas, settings
from deploy.check.rendering import DEPLOY
from headlight_service.config.command_line import PREFIX

COMPOSE = DEPLOY / "compose/compose.yaml"
RECIPE = "image/Dockerfile"  # `nox -s image-check` installs by the same script
SCHEMA = "node_modules/dclint/schemas/compose.schema.json"  # of the Compose specification
SKIPS = {
    "CL-0019": "no registry could be asked for a digest where this was made; name them for long use"
}
DEFAULTED = re.compile(r"\$\{\w+:-([^}]*)\}")
Services = Mapping[str, Mapping[str, Any]]


def breaches(file: Path = COMPOSE) -> list[str]:
    """Return what is wrong with the compose file and the files that it names.

    Raises:
        RuntimeError: a tool is missing or failed.
    """
    text = DEFAULTED.sub(r"\1", file.read_text(encoding="utf-8"))
    compose = yaml.safe_load(text)
    errors = [*against_schema(compose)]
    if errors:
        return errors
    services = compose["services"]
    return [
        *security(file),
        *files_exist(file.parent, compose),
        *is_the_image(file.parent, services["headlight"]),
        *health_is_asked(services),
        *options_are_taken(services["headlight"]),
        *prometheus_scrapes(file.parent, services),
        *grafana_shows(file.parent, services),
    ]


def against_schema(compose: Mapping[str, Any]) -> Iterator[str]:
    """Check against the JSON schema of the Compose specification, which knows every field."""
    schemas.install()
    schema = json.loads((schemas.BUILD / SCHEMA).read_text(encoding="utf-8"))
    for error in jsonschema.Draft7Validator(schema).iter_errors(compose):
        yield f"{'.'.join(map(str, error.path))}: {error.message}"


def security(file: Path) -> Iterator[str]:
    """Yield findings of compose-lint: OWASP and CIS, with loopback ports and limits among them."""
    command = [sys.executable, "-m", "compose_lint", "check", "--format", "json", "--no-env"]
    done = subprocess.run([*command, file], capture_output=True, text=True, check=False)
    try:
        findings = json.loads(done.stdout)["findings"]
    except ValueError:
        raise RuntimeError(f"compose-lint failed: {done.stderr.strip()[-2000:]}") from None
    for each in findings:
        if each["rule_id"] not in SKIPS:
            yield f"{each['service']}: {each['rule_id']} {each['message']}"
    for skip in SKIPS.keys() - {each["rule_id"] for each in findings}:
        yield f"{skip} fails nowhere any more; remove it from SKIPS in deploy/check/compose.py"


def mounts(service: Mapping[str, Any]) -> dict[str, str]:
    """Return the target of each mounted file or folder of the repository, and its source."""
    parts = [volume.split(":") for volume in service.get("volumes", ())]
    return {target: source for source, target, *_ in parts if source.startswith(".")}


def files_exist(folder: Path, compose: Mapping[str, Any]) -> Iterator[str]:
    """Check that mounted files are in the repository, read-only, and volumes are declared."""
    for name, service in compose["services"].items():
        for volume in service.get("volumes", ()):
            source, _, *options = volume.split(":")
            if not source.startswith("."):
                if source not in compose["volumes"]:
                    yield f"{name}: volume {source} is not declared"
            elif not (folder / source).exists():
                yield f"{name}: {source} does not exist"
            elif options != ["ro"]:
                yield f"{name}: {source} is mounted writable; add :ro"


def is_the_image(folder: Path, service: Mapping[str, Any]) -> Iterator[str]:
    """Check that the service is built by the recipe of the image, with a bundle inside."""
    build = service["build"]
    recipe = folder.parent / RECIPE
    if (folder / build["context"] / build["dockerfile"]).resolve() != recipe.resolve():
        yield f"headlight: is built by {build['dockerfile']}, and the image by {RECIPE}"
    stages = re.findall(r"^FROM \S+ AS (\w+)$", recipe.read_text(encoding="utf-8"), re.MULTILINE)
    for name, where in build["additional_contexts"].items():
        if name not in stages:
            yield f"headlight: {RECIPE} has no stage {name} for the bundle"
        if not (folder / where / "manifest.json").is_file():
            yield f"headlight: {where} is no bundle; `make export` writes it"


def health_is_asked(services: Services) -> Iterator[str]:
    """Check that each service has a health check, and waits for those before it by theirs."""
    for name, service in services.items():
        if "healthcheck" not in service:
            yield f"{name}: has no healthcheck"
        for before, how in service.get("depends_on", {}).items():
            if how["condition"] != "service_healthy":
                yield f"{name}: does not wait until {before} is healthy"


def options_are_taken(service: Mapping[str, Any]) -> Iterator[str]:
    """Check that the service would start with its variables."""
    given = {name: value for name, value in service["environment"].items() if PREFIX in name}
    alone = [why for name, value in given.items() if (why := settings.unreadable(name, value))]
    yield from (f"headlight: {why}" for why in alone)
    if not alone and (why := settings.refusal(given)):
        yield f"headlight: {why}"


def prometheus_scrapes(folder: Path, services: Services) -> Iterator[str]:
    """Check the configuration by promtool, its place beside the rules, and its target."""
    prometheus = services["prometheus"]
    [option] = [each for each in prometheus["command"] if each.startswith("--config.file=")]
    target = option.partition("=")[2]
    sources = mounts(prometheus)
    if target not in sources:
        yield f"prometheus: {target} is mounted from nowhere"
        return
    config = (folder / sources[target]).resolve()
    done = subprocess.run(
        ["promtool", "check", "config", config], capture_output=True, text=True, check=False
    )
    if done.returncode:
        yield f"prometheus: {' '.join((done.stdout + done.stderr).split())}"
        return
    read = yaml.safe_load(config.read_text(encoding="utf-8"))
    inside = {Path(place): (folder / source).resolve() for place, source in sources.items()}
    for rules in read["rule_files"]:
        named = Path(target).parent.joinpath(rules)
        parts = Path(*_normal(named))
        if inside.get(parts.parent) != (config.parent / rules).resolve().parent:
            yield f"prometheus: {rules} is not at {parts} in its container"
    for job in read["scrape_configs"]:
        for each in job["static_configs"]:
            yield from _reaches(services, "prometheus", each["targets"])


def grafana_shows(folder: Path, services: Services) -> Iterator[str]:
    """Check that the source leads to Prometheus, and the dashboard is where the provider looks."""
    sources = mounts(services["grafana"])
    provisioned = {
        Path(target).parent.name: yaml.safe_load((folder / source).read_text(encoding="utf-8"))
        for target, source in sources.items()
        if "/provisioning/" in target
    }
    urls = [each["url"] for each in provisioned["datasources"]["datasources"]]
    yield from _reaches(services, "grafana", [url.removeprefix("http://") for url in urls])
    looked = {each["options"]["path"] for each in provisioned["dashboards"]["providers"]}
    shown = {str(Path(target).parent): source for target, source in sources.items()}
    for place in looked:
        if not shown.get(place, "").endswith(".json"):
            yield f"grafana: no dashboard is mounted at {place}"


def _normal(path: Path) -> list[str]:
    """Return the parts of a path, `..` resolved as in a container without links."""
    parts: list[str] = []
    for part in path.parts:
        parts = parts[:-1] if part == ".." else [*parts, part]
    return parts


def _reaches(services: Services, who: str, addresses: list[str]) -> Iterator[str]:
    """Check that HOST:PORT are services, and ports that they publish."""
    for address in addresses:
        host, _, port = address.partition(":")
        ports = {each.rpartition(":")[2] for each in services.get(host, {}).get("ports", ())}
        if port not in ports:
            yield f"{who}: {address} is no service with that port"
