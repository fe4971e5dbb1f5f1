#!/bin/sh
# Builds the CPU image, with a bundle inside, without a container engine or a registry: a base made by debootstrap, built
# upon by buildah. Then starts it like a pod: read-only root, writable /tmp, another user without
# capabilities; and sends it a request.
#   deploy/image/try.sh PYTHON BUNDLE [cpu|gpu]
# Needs root and `apt-get install buildah debootstrap`; leaves the image in STORE (build/image-try).
# PYTHON has Headlight's client. For gpu it also checks that CUDA's libraries are found, and then
# serves on the CPU.
set -eu

python="$1"
bundle="$(cd "$2" && pwd)"
variant="${3:-cpu}"
root="$(cd "$(dirname "$0")/../.." && pwd)"
store="${STORE:-$root/build/image-try}"
base=localhost/debian:12-slim
image="localhost/headlight:try-$variant"
port=50091

for name in buildah debootstrap setpriv unshare; do
  command -v "$name" >/dev/null || { echo "try.sh: $name is missing: apt-get install buildah debootstrap" >&2; exit 2; }
done
test "$(id -u)" = 0 || { echo "try.sh: has to be root, for debootstrap and mounts" >&2; exit 2; }
mkdir -p "$store"
export BUILDAH_ISOLATION=chroot
buildah() { command buildah --root "$store/store" --runroot "$store/run" "$@"; }

# debian:12-slim is debootstrap's smallest set too. The machine's trusted certificates are copied,
# because the package index may need a private one.
if ! test -e "$store/base/.made"; then
  rm -rf "$store/base"
  debootstrap --variant=minbase --include=ca-certificates bookworm "$store/base" http://deb.debian.org/debian >"$store/debootstrap.log"
  cp /usr/local/share/ca-certificates/*.crt "$store/base/usr/local/share/ca-certificates/" 2>/dev/null || true
  chroot "$store/base" update-ca-certificates >/dev/null
  chroot "$store/base" apt-get clean
  touch "$store/base/.made"
fi
from="$(buildah from scratch)"
buildah add --quiet "$from" "$store/base" /
buildah commit --quiet "$from" "$base"
buildah rm "$from" >/dev/null
buildah bud --quiet -f "$root/deploy/image/Dockerfile" --build-arg "BASE=$base" --build-arg "VARIANT=$variant" --build-context "bundle=$bundle" \
  --build-arg "REVISION=$(git -C "$root" rev-parse HEAD)" --build-arg "CREATED=$(git -C "$root" log -1 --format=%cI)" -t "$image" "$root"
buildah images "$image"

container="$(buildah from "$image")"
mounted="$(buildah mount "$container")"
pid=
finish() {
  test -z "$pid" || kill "$pid" 2>/dev/null || true
  test -z "$pid" || wait "$pid" || true
  buildah rm "$container" >/dev/null
}
trap finish EXIT

if [ "$variant" = gpu ]; then
  # The loader finds every library of the CUDA provider except the driver, which the node provides.
  missing="$(chroot "$mounted" sh -c 'ldd /opt/venv/lib/python3.*/site-packages/onnxruntime/capi/libonnxruntime_providers_cuda.so' | grep 'not found' || true)"
  echo "not in the image: ${missing:-nothing}"
  chroot "$mounted" /opt/venv/bin/python -c 'import ctypes; [ctypes.CDLL(name) for name in ("libcudnn.so.9", "libcufft.so.12", "libnvrtc.so.13")]'
  test "$(echo "$missing" | grep -c 'not found')" = "$(echo "$missing" | grep -c 'libcuda.so.1')"
fi

# The variables of the image, one per line; none has a space.
variables="$(buildah inspect --format '{{range .OCIv1.Config.Env}}{{println .}}{{end}}' "$image")"
cat >"$store/start.sh" <<'START'
set -eu
mounted="$1"; shift
mount --make-rprivate /
mount --bind "$mounted" "$mounted"
mount -t proc proc "$mounted/proc"
mount --rbind /dev "$mounted/dev"
mount -t tmpfs -o size=64m,mode=1777 tmpfs "$mounted/tmp"
mount -o remount,bind,ro "$mounted"
if touch "$mounted/opt/written" 2>/dev/null; then echo "the root can be written" >&2; exit 1; fi
exec setpriv --no-new-privs chroot --userspec=10001:10001 "$mounted" env -i "$@"
START
# shellcheck disable=SC2086  # one variable is one word
unshare --mount sh "$store/start.sh" "$mounted" $variables \
  python -m headlight serve --grpc "127.0.0.1:$port" --metrics 127.0.0.1:0 2>"$store/service.log" &
pid=$!
until grep -q '"event": *"serving"' "$store/service.log"; do
  kill -0 "$pid" 2>/dev/null || { tail -5 "$store/service.log" >&2; exit 1; }
  sleep 0.2
done
(cd "$root" && "$python" -m headlight embed "join two paths" --target "127.0.0.1:$port" --timeout 60) >"$store/answer"
grep -E '^(Uid|CapEff|NoNewPrivs)' "/proc/$pid/status"
head -c 100 "$store/answer"; echo
kill -TERM "$pid"
code=0; wait "$pid" || code=$?
pid=
test "$code" = 0 || { echo "ended with $code" >&2; tail -5 "$store/service.log" >&2; exit 1; }
echo "ok: $image served its own bundle from a read-only root as another user, and ended with 0 on SIGTERM"
