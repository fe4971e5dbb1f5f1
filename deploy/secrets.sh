#!/bin/sh
# Makes what deploy/overlays/production needs, in FOLDER, and prints it as the Secrets headlight-tls
# and headlight-auth:
#   deploy/secrets.sh FOLDER [NAMESPACE] | kubectl apply -f -
# FOLDER then holds an authority (ca.crt, ca.key), a certificate for the Services (tls.crt, tls.key),
# and the token of one client (token). Keep ca.key and token secret; give ca.crt to clients. Run it
# again to renew the certificate, of 90 days, by the same authority; token and authority stay.
# Needs openssl and kubectl.
set -eu

folder="${1:?usage: secrets.sh FOLDER [NAMESPACE]}"
namespace="${2:-headlight}"
umask 077
mkdir -p "$folder"
cd "$folder"

key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc"
if ! test -e ca.key; then
  # shellcheck disable=SC2086  # several words
  openssl req -x509 $key -keyout ca.key -out ca.crt -days 3650 -subj "/CN=Headlight $namespace" \
    -addext keyUsage=critical,keyCertSign,cRLSign
fi
test -e token || openssl rand -hex 24 >token
echo "client sha256:$(tr -d '\n' <token | openssl dgst -sha256 -r | cut -d ' ' -f 1)" >tokens

names=
for service in headlight headlight-headless; do
  names="${names}DNS:$service,DNS:$service.$namespace.svc,DNS:$service.$namespace.svc.cluster.local,"
done
printf 'subjectAltName=%slocalhost\nextendedKeyUsage=serverAuth\n' "${names}DNS:" >extensions
# shellcheck disable=SC2086
openssl req -new $key -keyout tls.key -subj "/CN=headlight.$namespace.svc" -out request
openssl x509 -req -in request -CA ca.crt -CAkey ca.key -CAcreateserial -days 90 -extfile extensions -out tls.crt
rm request extensions

secret() { # ARGUMENT...
  echo ---
  kubectl create secret --namespace "$namespace" --dry-run=client --output yaml "$@"
}
secret generic headlight-tls --type kubernetes.io/tls --from-file tls.crt --from-file tls.key --from-file ca.crt
secret generic headlight-auth --from-file tokens
