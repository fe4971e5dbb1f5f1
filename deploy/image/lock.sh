#!/bin/sh
# Locks the packages of each image variant and of the release tools with digests: `nox -s lock`. The
# packages are those of pyproject.toml at the versions of constraints.txt, for Linux on any
# processor and every supported Python. uv queries PyPI, or the index that UV_INDEX_URL names.
#   deploy/image/lock.sh UV [DIR]
# DIR (default: this folder) may hold an earlier lock; its versions are kept if they still fit.
set -eu

uv="$1"
cd "$(dirname "$0")/../.."
image=deploy/image
out="${2:-$image}"

lock() { # FILE WHAT...
  file="$1"
  shift
  "$uv" pip compile --no-config --quiet --universal --generate-hashes --only-binary :all: --constraint constraints.txt \
    --custom-compile-command 'nox -s lock' --output-file "$out/$file" "$@"
}

lock requirements-cpu.txt pyproject.toml --extra serve --extra openvino --extra otel --excludes $image/excluded.txt
lock requirements-bulk.txt pyproject.toml --extra serve --extra openvino --extra otel --extra parquet --excludes $image/excluded.txt
lock requirements-gpu.txt pyproject.toml $image/gpu.in --extra serve-gpu --extra otel --excludes $image/excluded.txt
lock requirements-export.txt pyproject.toml $image/export.in --extra serve --extra openvino --extra otel --extra export --excludes $image/excluded-export.txt
grep -v '^#' $image/torch.txt >>"$out/requirements-export.txt"
lock tools.txt $image/tools.in --python-version 3.11
