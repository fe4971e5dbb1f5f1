#!/bin/sh
# Builds the image without a container engine or a registry: by buildah, on a base by debootstrap.
# Sourced by try.sh; by itself it writes an OCI archive, for `nox -s dist`:
#   deploy/image/build.sh VARIANT ARCHIVE
# BASE=IMAGE takes another base, as debian:12-slim by its digest, for a release. Needs root and
# `apt-get install buildah debootstrap`; images stay in STORE (build/image-try).
set -eu

root="$(cd "$(dirname "$0")/../.." && pwd)"
store="${STORE:-$root/build/image-try}"
version="$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$root/headlight/__init__.py")"

for name in buildah debootstrap; do
  command -v "$name" >/dev/null || { echo "$0: $name is missing: apt-get install buildah debootstrap" >&2; exit 2; }
done
test "$(id -u)" = 0 || { echo "$0: has to be root, for debootstrap and mounts" >&2; exit 2; }
mkdir -p "$store"
export BUILDAH_ISOLATION=chroot
buildah() { command buildah --root "$store/store" --runroot "$store/run" "$@"; }

# debian:12-slim is debootstrap's smallest set too. The machine's trusted certificates are copied,
# because the package index may need a private one.
make_base() { # NAME
  if ! test -e "$store/base/.made"; then
    rm -rf "$store/base"
    debootstrap --variant=minbase --include=ca-certificates bookworm "$store/base" http://deb.debian.org/debian >"$store/debootstrap.log"
    cp /usr/local/share/ca-certificates/*.crt "$store/base/usr/local/share/ca-certificates/" 2>/dev/null || true
    chroot "$store/base" update-ca-certificates >/dev/null
    chroot "$store/base" apt-get clean
    touch "$store/base/.made"
  fi
  from="$(buildah from scratch)"
  buildah add --quiet "$from" "$store/base" / >/dev/null
  buildah commit --quiet "$from" "$1" >/dev/null
  buildah rm "$from" >/dev/null
}

build_image() { # VARIANT NAME [BUILDAH-OPTION]...
  kind="$1" tag="$2"
  shift 2
  base="${BASE:-localhost/debian:12-slim}"
  test -n "${BASE:-}" || make_base "$base"
  for index in PIP_INDEX_URL PIP_EXTRA_INDEX_URL; do
    eval "value=\${$index:-}"
    test -z "$value" || set -- "$@" --build-arg "$index=$value"
  done
  buildah bud --quiet --layers -f "$root/deploy/image/Dockerfile" --build-arg "BASE=$base" --build-arg "VARIANT=$kind" \
    --build-arg "VERSION=$version" --build-arg "REVISION=$(git -C "$root" rev-parse HEAD)" \
    --build-arg "CREATED=$(git -C "$root" log -1 --format=%cI)" "$@" -t "$tag" "$root"
}

if [ "$(basename "$0")" = build.sh ]; then
  variant="${1:?usage: build.sh VARIANT ARCHIVE}"
  archive="${2:?usage: build.sh VARIANT ARCHIVE}"
  build_image "$variant" "localhost/headlight:$version-$variant"
  rm -f "$archive"
  buildah push --quiet "localhost/headlight:$version-$variant" "oci-archive:$archive:$version-$variant"
fi
