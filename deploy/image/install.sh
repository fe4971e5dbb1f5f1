#!/bin/sh
# Installs the content of the image into a folder: DIR/venv (the locked packages), DIR/headlight
# (our code) and nothing else. The Dockerfile and tests/image both run this, so that the tested tree
# is the shipped one.
#   deploy/image/install.sh cpu|bulk|gpu|export DIR
# Needs Python 3.11 or later (PYTHON, default python3) and a pip that can install for another Python
# (PIP, default `PYTHON -m pip`; 22.3 or later). Neither pip nor setuptools is installed into DIR.
# DIR must not hold an earlier installation.
set -eu

variant="${1:?usage: install.sh cpu|bulk|gpu|export DIR}"
target="${2:?usage: install.sh cpu|bulk|gpu|export DIR}"
python="${PYTHON:-python3}"
pip="${PIP:-$python -m pip}"
here="$(cd "$(dirname "$0")" && pwd)"
source="$(cd "$here/../.." && pwd)"
requirements="$here/requirements-$variant.txt"

test -f "$requirements" || { echo "install.sh: no variant '$variant'; there are cpu, bulk, gpu and export" >&2; exit 2; }
for folder in venv headlight; do
  test ! -e "$target/$folder" || { echo "install.sh: $target/$folder exists; remove it or choose another DIR" >&2; exit 2; }
done
umask 022
mkdir -p "$target/headlight"
target="$(cd "$target" && pwd)"

# Only wheels, so that no code of a package runs during installation; only with locked digests; only
# the listed packages.
"$python" -m venv --without-pip "$target/venv"
# shellcheck disable=SC2086  # `python3 -m pip` is three words
$pip --python "$target/venv/bin/python" install --require-hashes --no-deps --only-binary :all: --no-compile \
  --disable-pip-version-check --no-input --quiet --requirement "$requirements"

# Commands of packages (f2py, ovc, ...) and activation scripts are not used in an image.
find "$target/venv/bin" ! -type d ! -name 'python*' -delete

# Our own code is copied, not installed: neither pip nor setuptools is needed. A .pth makes it importable from any folder.
packages="headlight service/headlight_service"
test "$variant" != export || packages="$packages export/headlight_export model/headlight_model"
for package in $packages; do
  root="$source/$(dirname "$package")"
  # Checkpoints, training and evaluation are for work in a checkout.
  (cd "$root" && find "$(basename "$package")" -type d \( -name __pycache__ -o -path 'headlight_model/checkpoints' \
    -o -path 'headlight_model/bundles' -o -path 'headlight_model/train' -o -path 'headlight_model/evaluate' \) -prune -o -type f -print) | while read -r file; do
    mkdir -p "$target/headlight/$(dirname "$file")"
    cp "$root/$file" "$target/headlight/$file"
  done
done
cp "$source/LICENSE" "$source/NOTICE" "$target/headlight/"
site="$("$target/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
echo "$target/headlight" >"$site/headlight.pth"

# Compiled once, with hash-based .pyc files: nothing is written at run time, and two builds have the
# same bytes. PyTorch has tests in the grammar of later Pythons.
"$target/venv/bin/python" -m compileall -q -j 0 -x '/torch/testing/_internal/' --invalidation-mode unchecked-hash "$target/headlight" "$site"
chmod -R go-w,a+rX "$target/venv" "$target/headlight"

# Fail here, not in a cluster, if the tree cannot be imported.
cd / && "$target/venv/bin/python" -I -c '
import importlib.util, sys, headlight_service.app.lifecycle
exporters = ("torch", "onnx")
if "export" in sys.argv:
    import headlight_export.command, headlight_export.hub.hub_download
    exporters = ()
unwanted = [name for name in ("pip", "setuptools", "transformers", *exporters) if importlib.util.find_spec(name)]
assert not unwanted, f"{unwanted} can be imported; the image must not hold them"' "$variant"
