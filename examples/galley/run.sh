#!/usr/bin/env bash
# Starts galley on a directory and a server that takes its configuration from it, changes the directory, and shows what becomes of the changes.
#
#   examples/galley/run.sh
#
# MIXER is the binary; default: the one in target/, which is built if needed.
# STAY=1 keeps everything running until Enter is pressed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
SINK_PORT=${SINK_PORT:-9901} CTRLZ_PORT=${CTRLZ_PORT:-9876} WEBHOOK_PORT=${WEBHOOK_PORT:-9443} GALLEY_MONITORING_PORT=${GALLEY_MONITORING_PORT:-15014}
MIXER_PORT=${MIXER_PORT:-9091} MONITORING_PORT=${MONITORING_PORT:-15015} METRICS_PORT=${METRICS_PORT:-42422}
host=127.0.0.1

work=$(mktemp -d)
pids=()
# The server first: it is the one that is connected.
finish() {
  local index status=0
  for ((index = ${#pids[@]} - 1; index >= 0; index--)); do
    kill "${pids[index]}" 2>/dev/null || true
    wait "${pids[index]}" || status=$?
  done
  pids=()
  return "$status"
}
trap 'finish || true; rm -rf "$work"' EXIT

mixer=${MIXER:-}
if [ -z "$mixer" ]; then
  target=${CARGO_TARGET_DIR:-$root/target}
  for built in "$target/release/mixer" "$target/debug/mixer"; do
    if [ -z "$mixer" ] && [ -x "$built" ]; then mixer=$built; fi
  done
fi
if [ -z "$mixer" ]; then
  (cd "$root" && cargo build --bin mixer)
  mixer=${CARGO_TARGET_DIR:-$root/target}/debug/mixer
fi

fail() {
  echo "$*" >&2
  tail -n 20 "$work"/*.log >&2
  exit 1
}
# Shows a command of galley and what it prints.
galley() {
  echo "\$ mixer galley $*"
  "$mixer" galley "$@" --server "$host:$CTRLZ_PORT" 2>&1 | sed 's/^/  /'
}
# A file appears in the directory at once, never half-written.
put() {
  cat >"$work/.new"
  mv "$work/.new" "$work/config/$1"
}
publication() { "$mixer" galley status --server "$host:$CTRLZ_PORT" | sed -n 's/^publication \([0-9]*\).*/\1/p'; }
# A denied check has an exit status of its own.
status_of() { { "$mixer" check -o plain -m "$host:$MIXER_PORT" -s "source.user=$1" || true; } | sed -n 's/.*Check status was //p'; }
# What the server answers, as soon as it is what is expected: an acknowledged configuration serves within a moment.
ask() {
  local found=""
  for _ in $(seq 100); do
    found=$(status_of "$1")
    if [[ "$found" == "$2"* ]]; then break; fi
    sleep 0.1
  done
  [[ "$found" == "$2"* ]] || fail "$1 is answered: $found"
  echo "  $1: $found"
}

cp -r "$here/config" "$work/config"
# A certificate for the webhook, which is its own root.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 90 -subj /CN=localhost \
  -addext subjectAltName=DNS:localhost -keyout "$work/key.pem" -out "$work/cert.pem" 2>"$work/openssl.log" || fail "openssl makes no certificate"

"$mixer" galley server --config-path "$work/config" --insecure --server-address "tcp://$host:$SINK_PORT" \
  --ctrlz-port "$CTRLZ_PORT" --monitoring-port "$GALLEY_MONITORING_PORT" \
  --enable-validation --validation-depth=deep --validation-port "$WEBHOOK_PORT" \
  --tls-cert-file "$work/cert.pem" --tls-key-file "$work/key.pem" --ca-cert-file "$work/cert.pem" >"$work/galley.log" 2>&1 &
pids+=($!)
"$mixer" server --config-store-url "mcp://$host:$SINK_PORT" --address "tcp://$host:$MIXER_PORT" \
  --monitoring-port "$MONITORING_PORT" --metrics-port "$METRICS_PORT" --ctrlz-port 0 >"$work/server.log" 2>&1 &
pids+=($!)
for url in "http://$host:$GALLEY_MONITORING_PORT/readyz" "http://$host:$MONITORING_PORT/readyz"; do
  for _ in $(seq 300); do
    if curl --silent --fail --output /dev/null --max-time 1 "$url"; then break; fi
    sleep 0.1
  done
  curl --silent --fail --output /dev/null --max-time 1 "$url" || fail "$url is not ready"
done

echo
echo "== the server has the configuration of the directory"
galley wait rule/istio-system/deny || fail "no sink has the rule"
ask mallory PERMISSION_DENIED
ask eve OK

echo
echo "== a change takes effect: the rule is for eve too"
before=$(publication)
sed 's/source.user == "mallory"/source.user == "mallory" || source.user == "eve"/' "$here/config/deny.yaml" | put deny.yaml
galley wait "$((before + 1))" || fail "the change is not acknowledged"
ask eve PERMISSION_DENIED

echo
echo "== a change is refused by the webhook: review.json has a rule with a wrong attribute, as an API server would ask about it"
echo "\$ curl --cacert cert.pem -H 'content-type: application/json' --data @review.json https://localhost:$WEBHOOK_PORT/admitmixer"
curl --silent --show-error --max-time 10 --cacert "$work/cert.pem" -H 'content-type: application/json' \
  --data "@$here/review.json" "https://localhost:$WEBHOOK_PORT/admitmixer" >"$work/answer.json" || fail "the webhook does not answer"
python3 - "$work/answer.json" <<'PY'
import json, sys
response = json.load(open(sys.argv[1]))["response"]
print("  allowed:", response["allowed"])
for line in response.get("status", {}).get("message", "").splitlines():
    print("  " + line)
PY

echo
echo "== a change is refused by the server (NACK): parameters nested deeper than a message may be"
before=$(publication)
{
  printf 'apiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {name: nested, namespace: istio-system}\n'
  printf 'spec: {compiledAdapter: denier, params: '
  printf '{a: %.0s' $(seq 70)
  printf '1'
  printf '}%.0s' $(seq 70)
  printf '}\n'
} | put nested.yaml
if galley wait "$((before + 1))"; then fail "the server accepts it"; fi
galley sinks
echo "  The server goes on with what it has:"
ask eve PERMISSION_DENIED

echo
echo "== the change is taken back"
before=$(publication)
rm "$work/config/nested.yaml"
galley wait "$((before + 1))" || fail "the server does not recover"
galley sinks
if [ "${STAY:-}" = 1 ]; then
  echo
  read -r -p "ControlZ of galley is at http://localhost:$CTRLZ_PORT/; press Enter to end. "
fi
echo
finish || fail "a process ended with an error"
echo "== galley and the server have stopped"
