#!/bin/sh
# Writes the packages installed in an environment as CycloneDX: `make sbom`. It lists each Python
# package with version and licence, but not the base image's Debian packages. The same environment
# gives the same bytes.
#   deploy/image/sbom.sh CYCLONEDX PYTHON OUT
set -eu
"$1" environment --pyproject "$(dirname "$0")/../../pyproject.toml" --mc-type application --spec-version 1.6 --output-format JSON \
  --output-reproducible --validate --output-file "$3" "$2"
