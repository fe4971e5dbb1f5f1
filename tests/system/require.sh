#!/usr/bin/env bash
# Makes sure of the named commands, installing their Debian packages only where the command is missing: a machine may have a
# command from elsewhere, with which Debian's package would conflict. Fails, never skips, where one cannot be had.
#   tests/system/require.sh make venv node npm prometheus promtool
set -euo pipefail

present() {
  case "$1" in
    venv) "${PYTHON:-python3}" -c 'import ensurepip, venv' 2>/dev/null ;;
    *.jar) [ -f "/usr/share/java/$1" ] ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

package_of() {
  case "$1" in
    buildah | chromium | curl | debootstrap | make | nginx | npm | openssl | prometheus | zsh) echo "$1" ;;
    cc) echo gcc ;;
    go) echo golang-go ;;
    grpc-netty.jar) echo libgrpc-java ;;
    grpc_java_plugin) echo protobuf-compiler-grpc-java-plugin ;;
    java | javac) echo openjdk-17-jdk-headless ;;
    netty-common.jar) echo libnetty-java ;; # libgrpc-java only suggests these two
    perfmark-api.jar) echo libperfmark-java ;;
    protoc) echo protobuf-compiler ;;
    node) echo nodejs ;;
    promtool) echo prometheus ;;
    venv) echo python3-venv ;;
    kubectl) echo none ;; # Debian has 1.20, whose kustomize cannot read deploy/
    *) echo "require.sh knows no Debian package for '$1'; add it to package_of" >&2; exit 2 ;;
  esac
}

packages=()
for name in "$@"; do
  package="$(package_of "$name")"
  present "$name" && continue
  if [ "$package" = none ]; then
    echo "'$name' is missing, and Debian has none that is new enough; for kubectl see https://kubernetes.io/docs/tasks/tools" >&2
    exit 1
  fi
  packages+=("$package")
done
[ ${#packages[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
  echo "missing: ${packages[*]} (as Debian calls them); install them and run this again" >&2
  exit 1
fi
privilege=()
[ "$(id -u)" -eq 0 ] || privilege=(sudo)
echo "installing ${packages[*]}"
retried=(-o Acquire::Retries=3)
"${privilege[@]}" apt-get "${retried[@]}" update -qq
"${privilege[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "${retried[@]}" install -y -qq --no-install-recommends "${packages[@]}"

for name in "$@"; do
  present "$name" || { echo "'$name' is missing even after installing ${packages[*]}" >&2; exit 1; }
done
