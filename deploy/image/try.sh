#!/bin/sh
# Builds the CPU image, with a bundle inside, by build.sh. Then starts it like a pod: read-only root,
# writable /tmp, another user without capabilities; and sends it a request.
#   deploy/image/try.sh PYTHON BUNDLE [cpu|gpu|export]
# export: first the variant `export` fills a volume with a model by its name, from a Hub on loopback,
# as deploy/components/bundle-export does; then the CPU image serves it with the same arguments.
# Needs root and `apt-get install buildah debootstrap`; leaves the image in STORE (build/image-try).
# PYTHON has Headlight's client. For gpu it also checks that CUDA's libraries are found, and then
# serves on the CPU.
set -eu

python="$1"
bundle="$(cd "$2" && pwd)"
variant="${3:-cpu}"
port=50091
served="$variant"
test "$variant" != export || served=cpu
image="localhost/headlight:try-$served"
for name in setpriv unshare; do
  command -v "$name" >/dev/null || { echo "try.sh: $name is missing" >&2; exit 2; }
done
# shellcheck source=deploy/image/build.sh
. "$(dirname "$0")/build.sh"

build_image "$served" "$image" --build-context "bundle=$bundle"
buildah images "$image"

container="$(buildah from "$image")"
mounted="$(buildah mount "$container")"
pid=
hub=
exporter=
finish() {
  test -z "$hub" || kill "$hub" 2>/dev/null || true
  test -z "$exporter" || buildah rm "$exporter" >/dev/null
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
mounted="$1" volume="$2" mode="$3"
shift 3
mount --make-rprivate /
mount --bind "$mounted" "$mounted"
mount -t proc proc "$mounted/proc"
mount --rbind /dev "$mounted/dev"
mount -t tmpfs -o size=64m,mode=1777 tmpfs "$mounted/tmp"
echo "127.0.0.1 localhost" >"$mounted/etc/hosts" # as an engine does
mount -o remount,bind,ro "$mounted"
if [ "$mode" != none ]; then # a folder that the pod mounts, for all or for reading
  mount --bind "$volume" "$mounted/mnt/models"
  mount -o "remount,bind,$mode" "$mounted/mnt/models"
fi
if touch "$mounted/opt/written" 2>/dev/null; then echo "the root can be written" >&2; exit 1; fi
exec setpriv --no-new-privs chroot --userspec=10001:10001 "$mounted" env -i "$@"
START
volume=/
mode=none
model=
if [ "$variant" = export ]; then
  volume="$store/volume"
  mode=ro
  model="org/tiny --revision v2 --pooling mean"
  variables="$variables HEADLIGHT_CACHE=/mnt/models"
  rm -rf "$volume" "$store/tiny" "$store/hub"
  install -d -o 10001 -g 10001 "$volume"
  (cd "$root" && exec "$python" -m tests.export.hub.hub_server org/tiny v2 "$store/tiny") >"$store/hub" &
  hub=$!
  until test -s "$store/hub"; do kill -0 "$hub"; sleep 0.2; done
  build_image export localhost/headlight:try-export
  buildah images localhost/headlight:try-export
  exporter="$(buildah from localhost/headlight:try-export)"
  for hub_state in running stopped; do # a second pod does not need it
    # shellcheck disable=SC2086
    unshare --mount sh "$store/start.sh" "$(buildah mount "$exporter")" "$volume" rw $variables \
      HF_HOME=/tmp/hub "HF_ENDPOINT=$(cat "$store/hub")" python -m headlight serve $model --check
    if [ "$hub_state" = running ]; then kill "$hub"; wait "$hub" || true; hub=; fi
  done
fi

# shellcheck disable=SC2086  # one variable is one word
unshare --mount sh "$store/start.sh" "$mounted" "$volume" "$mode" $variables \
  python -m headlight serve $model --grpc "127.0.0.1:$port" --metrics 127.0.0.1:0 2>"$store/service.log" &
pid=$!
until grep -q '"event": *"serving"' "$store/service.log"; do
  kill -0 "$pid" 2>/dev/null || { tail -5 "$store/service.log" >&2; exit 1; }
  sleep 0.2
done
(cd "$root" && "$python" -m headlight embed "a b c" --target "127.0.0.1:$port" --timeout 60) >"$store/answer"
grep -E '^(Uid|CapEff|NoNewPrivs)' "/proc/$pid/status"
head -c 100 "$store/answer"; echo
kill -TERM "$pid"
code=0; wait "$pid" || code=$?
pid=
test "$code" = 0 || { echo "ended with $code" >&2; tail -5 "$store/service.log" >&2; exit 1; }
echo "ok: $image served ${model:-its own bundle} from a read-only root as another user, and ended with 0 on SIGTERM"
