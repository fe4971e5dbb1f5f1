"""python -m deploy.image.release: checks before the release of a version.

`nox -s release-check` runs it.

Needs the network: an index of packages, and the service that knows their vulnerabilities. A check
that gets no answer fails. Run it with the Python of the release tools, whose commands it calls.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from deploy.image import licences
from deploy.image.locked import (
    IMAGE,
    ROOT,
    VARIANTS,
    canonical,
    read_lock,
    read_names,
    requirements_file,
)

LOCKS = [requirements_file(variant) for variant in VARIANTS]
PYTHONS = ("3.11", "3.12")
PROCESSORS = ("x86_64", "aarch64")
GLIBC = 36  # minor version of Debian 12's glibc, which decides on wheels
VARIANT = re.compile(r"-(bulk|export|gpu)\Z")  # at the end of a tag
TAIL = 300  # characters of a tool's output in a message

Problems = Iterator[str]


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command from the repository's root to its end."""
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)


def tool(name: str) -> Path:
    """Return a command of this environment."""
    return Path(sys.executable).parent / name


def last_output(done: subprocess.CompletedProcess[str]) -> str:
    """Return the end of a command's output."""
    return " ".join((done.stderr.strip() or done.stdout.strip())[-TAIL:].split())


def uncommitted() -> Problems:
    """Check that everything is committed: a release is made of commits."""
    done = run("git", "status", "--porcelain")
    if done.returncode:
        yield last_output(done)
    yield from (f"not committed: {line}" for line in done.stdout.splitlines())


def text(path: str) -> str:
    """Read a file of the repository."""
    return (ROOT / path).read_text(encoding="utf-8")


def first_match(pattern: str, path: str) -> str:
    """Return the first group of the first match of the pattern; "nothing" if there is none."""
    match = re.search(pattern, text(path), re.MULTILINE)
    return match[1] if match else "nothing"


def versions() -> Problems:
    """Check for one version everywhere: package, label, changelog, overlays."""
    version = first_match(r'^__version__ = "(.+)"', "headlight/__init__.py")
    named = {
        "deploy/image/Dockerfile (ARG VERSION)": first_match(
            r"^ARG VERSION=(.+)$", "deploy/image/Dockerfile"
        ),
        "CHANGELOG.md (its newest section)": first_match(
            r"^## \[(?!Unreleased\]\s+## )(.+?)\]", "CHANGELOG.md"
        ),
    }
    for field in ("version", "appVersion"):
        where = f"deploy/chart/Chart.yaml ({field})"
        named[where] = first_match(rf"^{field}: (.+)$", "deploy/chart/Chart.yaml")
    named["deploy/chart/values.yaml (model.image)"] = first_match(
        r"^ +image: .+:(\S+)$", "deploy/chart/values.yaml"
    )
    tags = 0
    for path in sorted((ROOT / "deploy").rglob("*.yaml")):
        name, content = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        for tag in re.findall(
            r"^ *- name: headlight(?:-export)?\n(?: +newName: .+\n)? +newTag: (\S+)",
            content,
            re.MULTILINE,
        ):
            tags += 1
            named[f"{name} (newTag {tag})"] = VARIANT.sub("", tag.strip("\"'"))
        for label in re.findall(r"app\.kubernetes\.io/version: (\S+)", content):
            named[f"{name} (app.kubernetes.io/version)"] = label.strip("\"'")
    if not tags:
        yield "no overlay under deploy/ names a tag of the image"
    yield from (
        f"{where} says {what}, headlight/__init__.py {version}"
        for where, what in named.items()
        if what != version
    )


def base() -> Problems:
    """Check that the base image is named by digest."""
    name = first_match(r"^ARG BASE=(\S+)", "deploy/image/Dockerfile")
    if not re.fullmatch(r".+@sha256:[0-9a-f]{64}", name):
        tag = name.partition("@")[0]
        ask = f"docker buildx imagetools inspect {tag} --format '{{{{.Manifest.Digest}}}}'"
        yield (
            f"ARG BASE of deploy/image/Dockerfile is {name}, without a digest; ask for it by: {ask}"
        )


def locks() -> Problems:
    """Check that every package is pinned to digests and to the version in constraints.txt.

    Also check that `nox -s lock` would change nothing.
    """
    constraints = read_names(ROOT / "constraints.txt")
    for path in LOCKS:
        for pin in read_lock(path).values():
            if constraints.get(pin.name, pin.version) != pin.version:
                yield (
                    f"{path.name}: {pin.name} {pin.version}, "
                    f"constraints.txt {constraints[pin.name]}"
                )
    with tempfile.TemporaryDirectory() as folder:
        for path in (*LOCKS, IMAGE / "tools.txt"):
            (Path(folder) / path.name).write_bytes(path.read_bytes())
        done = run(IMAGE / "lock.sh", tool("uv"), folder)
        if done.returncode:
            yield f"could not be locked anew: {last_output(done)}"
            return
        for path in (*LOCKS, IMAGE / "tools.txt"):
            if (Path(folder) / path.name).read_bytes() != path.read_bytes():
                yield f"{path.name} is not what `nox -s lock` writes"


def report(variant: str, processor: str, python: str) -> list[dict[str, Any]]:
    """Return pip's installation report. It requests metadata from the index, not files.

    Raises:
        RuntimeError: pip would not install; the message has the end of its output.
    """
    platforms = [f"manylinux_2_{minor}_{processor}" for minor in range(GLIBC, 4, -1)]
    platforms += [f"manylinux{year}_{processor}" for year in ("2014", "2010", "1")]
    options = [f"--platform={name}" for name in platforms]
    options += [
        "--dry-run",
        "--ignore-installed",
        "--no-deps",
        "--only-binary=:all:",
        "--quiet",
        "--report=-",
    ]
    with tempfile.TemporaryDirectory() as folder:
        names = Path(folder) / "names.txt"
        pins = read_lock(requirements_file(variant)).values()
        requirements = (
            f"{pin.name}=={pin.version}" + (f"; {pin.marker}" if pin.marker else "") for pin in pins
        )
        names.write_text("\n".join(requirements), encoding="utf-8")
        target = (f"--python-version={python}", "--target", f"{folder}/none")
        done = run(
            tool("python"), "-m", "pip", "install", *options, *target, "--requirement", names
        )
    if done.returncode:
        raise RuntimeError(last_output(done))
    entries: list[dict[str, Any]] = json.loads(done.stdout)["install"]
    return entries


def files() -> Problems:
    """Check the index for locked wheels of every package, for each processor and Python.

    Their licences must be accepted.
    """
    rules, seen = licences.read_rules(), set()
    for variant in VARIANTS:
        pins = read_lock(requirements_file(variant))
        for processor in PROCESSORS:
            for python in PYTHONS:
                where = f"{variant}, {processor}, Python {python}"
                try:
                    entries = report(variant, processor, python)
                except RuntimeError as error:
                    yield f"{where}: {error}"
                    continue
                for entry in entries:
                    name = canonical(entry["metadata"]["name"])
                    digest = entry["download_info"]["archive_info"]["hashes"]["sha256"]
                    if digest not in pins[name].hashes:
                        yield (
                            f"{where}: the index offers a file of {name} whose digest is not locked"
                        )
                    if problem := licences.problem(entry["metadata"], rules):
                        seen.add(problem)
    yield from sorted(seen)


def vulnerabilities() -> Problems:
    """Check that pip-audit knows every locked package, and no vulnerability of one."""
    for path in (*LOCKS, IMAGE / "tools.txt"):
        options = (
            "--disable-pip",
            "--require-hashes",
            "--progress-spinner",
            "off",
            "--format",
            "json",
        )
        done = run(tool("pip-audit"), *options, "--requirement", path)
        try:
            audited = json.loads(done.stdout)["dependencies"]
        except ValueError:
            yield f"{path.name}: pip-audit could not ask: {last_output(done)}"
            continue
        answered = {canonical(entry["name"]) for entry in audited if "vulns" in entry}
        # pip-audit skips a package that the service does not know, and calls the rest clean.
        locked = read_lock(path)
        if unknown := sorted(set(locked) - answered):
            about = ", ".join(unknown) if answered else f"any of its {len(locked)} packages"
            yield (
                f"{path.name}: not audited, for the vulnerability service did not "
                f"answer about {about}"
            )
        for entry in audited:
            for known in entry.get("vulns", ()):
                fixed = ", ".join(known["fix_versions"]) or "no version yet"
                yield (
                    f"{path.name}: {entry['name']} {entry['version']} has {known['id']}, "
                    f"fixed in {fixed}"
                )


CHECKS: dict[str, Callable[[], Problems]] = {
    "everything is committed": uncommitted,
    "versions agree": versions,
    "the base is named by digest": base,
    "locks are whole and current": locks,
    "wheels and licences": files,
    "no known vulnerabilities": vulnerabilities,
}


def main() -> int:
    """Run every check and print its result; return the exit code."""
    failed = 0
    for name, check in CHECKS.items():
        problems = list(check())
        failed += bool(problems)
        sys.stdout.write(
            "".join(
                [
                    f"{'FAILED' if problems else 'ok':6}  {name}\n",
                    *(f"          {p}\n" for p in problems),
                ]
            )
        )
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
