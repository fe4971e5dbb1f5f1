#!/bin/sh
# What the image holds, put below a folder: DIR/venv (the locked packages), DIR/headlight (our code) and nothing else. The Dockerfile
# runs this and tests/image runs this, so that what is tested is what is shipped.
#   deploy/image/install.sh cpu|gpu DIR
# Needs a Python 3.11 or later (PYTHON, default python3) and a pip that can install for another Python (PIP, default `PYTHON -m pip`;
# 22.3 or later). Neither pip nor setuptools is put into DIR. DIR must not hold an earlier installation.
set -eu

variant="${1:?usage: install.sh cpu|gpu DIR}"
target="${2:?usage: install.sh cpu|gpu DIR}"
python="${PYTHON:-python3}"
pip="${PIP:-$python -m pip}"
here="$(cd "$(dirname "$0")" && pwd)"
source="$(cd "$here/../.." && pwd)"
requirements="$here/requirements-$variant.txt"

test -f "$requirements" || { echo "install.sh: no variant '$variant'; there are cpu and gpu" >&2; exit 2; }
for folder in venv headlight; do
  test ! -e "$target/$folder" || { echo "install.sh: $target/$folder exists; remove it or choose another DIR" >&2; exit 2; }
done
umask 022
mkdir -p "$target/headlight"
target="$(cd "$target" && pwd)"

# Only wheels, so that nothing of a package runs while it is installed; only those whose digests are locked; only those that are named.
"$python" -m venv --without-pip "$target/venv"
# shellcheck disable=SC2086  # `python3 -m pip` is three words
$pip --python "$target/venv/bin/python" install --require-hashes --no-deps --only-binary :all: --no-compile \
  --disable-pip-version-check --no-input --quiet --requirement "$requirements"

# Commands of packages (f2py, ovc, ...) and what activates an environment in a shell: nobody runs them in an image.
find "$target/venv/bin" ! -type d ! -name 'python*' -delete

# Our own code is copied, not installed: neither pip nor setuptools is needed. A .pth makes it importable from any folder.
for package in headlight service/headlight_service; do
  root="$source/$(dirname "$package")"
  (cd "$root" && find "$(basename "$package")" -type d -name __pycache__ -prune -o -type f -print) | while read -r file; do
    mkdir -p "$target/headlight/$(dirname "$file")"
    cp "$root/$file" "$target/headlight/$file"
  done
done
cp "$source/LICENSE" "$source/NOTICE" "$target/headlight/"
site="$("$target/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
echo "$target/headlight" >"$site/headlight.pth"

# Compiled once, by content and not by date: nothing is written at run time, and two builds have the same bytes.
"$target/venv/bin/python" -m compileall -q -j 0 --invalidation-mode unchecked-hash "$target/headlight" "$site"
chmod -R go-w,a+rX "$target/venv" "$target/headlight"

# A tree that cannot start is found here and not in a cluster.
cd / && "$target/venv/bin/python" -I -c '
import importlib.util, headlight_service.app.lifecycle
unwanted = [name for name in ("pip", "setuptools", "torch", "onnx", "transformers") if importlib.util.find_spec(name)]
assert not unwanted, f"{unwanted} can be imported; the image must not hold them"'
