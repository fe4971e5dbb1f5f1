#!/bin/sh
# What is installed in an environment, as CycloneDX: `make sbom`. Names each Python package with version and licence; the base's Debian
# packages are not Python's to know. The same environment gives the same bytes.
#   deploy/image/sbom.sh CYCLONEDX PYTHON OUT
set -eu
"$1" environment --pyproject "$(dirname "$0")/../../pyproject.toml" --mc-type application --spec-version 1.6 --output-format JSON \
  --output-reproducible --validate --output-file "$3" "$2"
