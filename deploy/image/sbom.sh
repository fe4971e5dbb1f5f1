#!/bin/sh
# Writes the packages installed in an environment as CycloneDX: `nox -s sbom`. It lists each Python
# package with version and licence, but not the base image's Debian packages. The same environment
# gives the same bytes.
#   deploy/image/sbom.sh CYCLONEDX PYTHON OUT
set -eu
root="$(cd "$(dirname "$0")/../.." && pwd)"
version="$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$root/headlight/__init__.py")"
# cyclonedx-py knows no version that is not written there.
project="$(mktemp)"
trap 'rm -f "$project"' EXIT
sed "s/^dynamic = .*/version = \"$version\"/" "$root/pyproject.toml" >"$project"
"$1" environment --pyproject "$project" --mc-type application --spec-version 1.6 --output-format JSON \
  --output-reproducible --validate --output-file "$3" "$2"
