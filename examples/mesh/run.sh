#!/usr/bin/env bash
# Starts a mesh on loopback: galley, the policy server behind it, two proxies with mutual TLS between them, an app, Prometheus and a collector of traces.
# Sends requests, changes the policy below galley's directory, and shows what becomes of it, the metrics and a trace.
#
#   examples/mesh/run.sh
#
# MIXER is the binary; default: the one in target/, which is built if needed.
# ROTEL is the collector; default: `rotel-agent` on the path, else the PyPI package rotel is installed.
# STAY=1 keeps everything running until Enter is pressed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
rotel_version=0.0.1a15
OUTBOUND_PORT=${OUTBOUND_PORT:-8000} INBOUND_PORT=${INBOUND_PORT:-8443} APP_PORT=${APP_PORT:-8081}
OUTBOUND_ADMIN_PORT=${OUTBOUND_ADMIN_PORT:-15000} INBOUND_ADMIN_PORT=${INBOUND_ADMIN_PORT:-15001}
SINK_PORT=${SINK_PORT:-9901} CTRLZ_PORT=${CTRLZ_PORT:-9876} GALLEY_MONITORING_PORT=${GALLEY_MONITORING_PORT:-15014}
MIXER_PORT=${MIXER_PORT:-9091} MONITORING_PORT=${MONITORING_PORT:-15015} METRICS_PORT=${METRICS_PORT:-42422}
PROMETHEUS_PORT=${PROMETHEUS_PORT:-9090} COLLECTOR_PORT=${COLLECTOR_PORT:-4317} COLLECTOR_HTTP_PORT=${COLLECTOR_HTTP_PORT:-4318}
host=127.0.0.1

work=$(mktemp -d)
pids=()
# In reverse order, so that a process ends before what it connects to. The status is that of a process that ended with an error.
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

fail() {
  echo "$*" >&2
  tail -n 20 "$work"/*.log >&2
  exit 1
}

for program in curl openssl python3 prometheus; do
  command -v "$program" >/dev/null || { echo "this example needs the program \`$program\`; Debian has a package of that name" >&2; exit 1; }
done
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
collector=${ROTEL:-$(command -v rotel-agent || true)}
if [ -z "$collector" ]; then
  echo "installing rotel $rotel_version from PyPI into $work"
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check "rotel==$rotel_version"
  collector=$("$work/venv/bin/python" -c 'import os, rotel; print(os.path.join(os.path.dirname(rotel.__file__), "rotel-agent"))')
fi

# Starts a program whose output goes to a log.
start() {
  local log=$1
  shift
  "$@" >"$work/$log.log" 2>&1 &
  pids+=($!)
}
# Repeats a command until it succeeds.
eventually() {
  for _ in $(seq 300); do
    if "$@"; then return; fi
    sleep 0.2
  done
  fail "this does not happen: $*"
}
responds() { curl --silent --fail --output /dev/null --max-time 5 "$1"; }
# A file of the example, with ports and paths filled in.
filled() {
  local name script="s|\\\$WORK|$work|g"
  for name in OUTBOUND_PORT INBOUND_PORT APP_PORT OUTBOUND_ADMIN_PORT INBOUND_ADMIN_PORT MIXER_PORT MONITORING_PORT METRICS_PORT \
    GALLEY_MONITORING_PORT COLLECTOR_PORT; do
    script="$script;s|\\\$$name\\b|${!name}|g"
  done
  sed "$script" "$here/$1"
}
# A file appears in galley's directory at once, never half-written.
put() {
  cat >"$work/.new"
  mv "$work/.new" "$work/config/$1"
}
publication() { "$mixer" galley status --server "$host:$CTRLZ_PORT" | sed -n 's/^publication \([0-9]*\).*/\1/p'; }
# Edits a file of galley's directory with a command of sed, and waits until the server has acknowledged it.
edit() {
  local before
  before=$(publication)
  echo "\$ sed -i '$2' config/$1"
  sed "$2" "$work/config/$1" | put "$1"
  echo "\$ mixer galley wait $((before + 1))"
  "$mixer" galley wait "$((before + 1))" --server "$host:$CTRLZ_PORT" | sed 's/^/  /' || fail "the change is not acknowledged"
}
# The answer to the client: its status and its first line. All answers are kept.
answer() {
  curl --silent --max-time 30 --write-out '\n%{http_code}' "${@:2}" "http://$host:$OUTBOUND_PORT$1" | python3 -c '
import sys
lines = sys.stdin.read().splitlines()
print(lines[-1], lines[0])' | tee -a "$work/answers"
}
# Asks until the answer is as expected, and shows it: proxies use a cached answer for up to a second.
ask() {
  local found="" path=$1 expected=$2
  echo "\$ curl http://$host:$OUTBOUND_PORT$path"
  for _ in $(seq 100); do
    found=$(answer "$path")
    if [[ "$found" == "$expected"* ]]; then break; fi
    sleep 0.2
  done
  [[ "$found" == "$expected"* ]] || fail "$path is answered: $found"
  echo "  $found"
}
# What Prometheus says of a query: a line a series, with its labels and its value.
query() {
  curl --silent --max-time 10 --data-urlencode "query=$1" "http://$host:$PROMETHEUS_PORT/api/v1/query" | python3 -c '
import json, sys
for series in json.load(sys.stdin)["data"]["result"]:
    labels = ", ".join("%s=%s" % label for label in sorted(series["metric"].items()))
    print("{%s} %s" % (labels, series["value"][1]))'
}
has() { [[ "$(query "$1")" == *" $2" ]]; }
received() { grep -q -- "$1" "$work/collector.log"; }

# Certificates: a root, the client's sidecar and the app's, whose names are identities of the mesh.
certificate() {
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" -keyout "$work/$1.key" -out "$work/$1.csr"
  openssl x509 -req -in "$work/$1.csr" -CA "$work/root.pem" -CAkey "$work/root.key" -CAcreateserial -days 90 -out "$work/$1.pem" \
    -extfile <(printf 'subjectAltName=URI:%s\nbasicConstraints=CA:FALSE\n' "$2")
}
{
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 90 -subj "/CN=root" -keyout "$work/root.key" -out "$work/root.pem" &&
    certificate web spiffe://mesh.example/ns/front/sa/web &&
    certificate orders spiffe://mesh.example/ns/shop/sa/orders
} 2>"$work/openssl.log" || fail "openssl makes no certificates"

mkdir "$work/config"
for file in "$here"/config/*.yaml; do filled "config/$(basename "$file")" | put "$(basename "$file")"; done
for file in outbound.yaml inbound.yaml prometheus.yml; do filled "$file" >"$work/$file"; done

start collector "$collector" start --exporter=blackhole --debug-log=traces --debug-log-verbosity=detailed --pid-file "$work/collector.pid" \
  --otlp-grpc-endpoint "$host:$COLLECTOR_PORT" --otlp-http-endpoint "$host:$COLLECTOR_HTTP_PORT"
start app python3 "$here/app.py" "$APP_PORT"
start galley "$mixer" galley server --config-path "$work/config" --insecure --server-address "tcp://$host:$SINK_PORT" \
  --ctrlz-port "$CTRLZ_PORT" --monitoring-port "$GALLEY_MONITORING_PORT"
start server "$mixer" server --config-store-url "mcp://$host:$SINK_PORT" --address "tcp://$host:$MIXER_PORT" \
  --monitoring-port "$MONITORING_PORT" --metrics-port "$METRICS_PORT" --ctrlz-port 0 \
  --trace-otlp-url "http://$host:$COLLECTOR_HTTP_PORT/v1/traces" --trace-sampling-rate 1
start inbound "$mixer" proxy -c "$work/inbound.yaml" --concurrency 1
start outbound "$mixer" proxy -c "$work/outbound.yaml" --concurrency 1
start prometheus prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/data" --web.listen-address="$host:$PROMETHEUS_PORT"
for url in "http://$host:$APP_PORT/" "http://$host:$GALLEY_MONITORING_PORT/readyz" "http://$host:$MONITORING_PORT/readyz" \
  "http://$host:$INBOUND_ADMIN_PORT/ready" "http://$host:$OUTBOUND_ADMIN_PORT/ready" "http://$host:$PROMETHEUS_PORT/-/ready"; do
  eventually responds "$url"
done

echo
echo "== the server has the configuration of galley's directory"
"$mixer" galley wait latest --server "$host:$CTRLZ_PORT" | sed 's/^/  /' || fail "no sink has it"

echo
echo "== traffic: the client, its proxy, mutual TLS, the proxy of the app, the app"
ask /orders 200
echo "== a part that a rule closes"
ask /admin 403
echo "== without a certificate nobody reaches the app"
echo "\$ curl --insecure https://$host:$INBOUND_PORT/orders"
if curl --silent --insecure --max-time 10 --output /dev/null "https://$host:$INBOUND_PORT/orders"; then fail "a client without a certificate is served"; fi
echo "  refused"

echo
echo "== a policy change takes effect: only the cashier may call"
edit callers.yaml s,sa/web,sa/cashier,
ask /orders 403
echo "== and is taken back"
edit callers.yaml s,sa/cashier,sa/web,
ask /orders 200

echo
echo "== metrics in Prometheus: every target is scraped"
eventually has 'count(up == 1)' 5
query 'up' | sed 's/^/  /'
echo "== ten requests more, and every one that was answered is counted, by both proxies"
for _ in $(seq 10); do answer /orders >/dev/null; done
by='sum by (reporter, source, source_principal, destination, mtls, code) (istio_requests_total)'
counted() {
  local code
  for code in 200 403; do
    has "sum(istio_requests_total{reporter=\"inbound\",code=\"$code\"})" "$(grep -c "^$code" "$work/answers")" &&
      has "sum(istio_requests_total{reporter=\"outbound\",code=\"$code\"})" "$(grep -c "^$code" "$work/answers")" || return
  done
}
eventually counted
for code in 200 403; do echo "  answered with $code: $(grep -c "^$code" "$work/answers")"; done
echo "\$ $by"
query "$by" | sed 's/^/  /'

echo
echo "== a trace in the collector: the request as both proxies report it"
trace=$(openssl rand -hex 16)
echo "\$ curl -H 'x-b3-traceid: $trace' … http://$host:$OUTBOUND_PORT/orders"
answer /orders -H "x-b3-traceid: $trace" -H "x-b3-spanid: $(openssl rand -hex 8)" -H 'x-b3-sampled: 1' | sed 's/^/  /'
# The collector writes spans as blocks of lines.
spans() {
  python3 - "$work/collector.log" "$1" "$2" <<'PY'
import re, sys
log, key, value = open(sys.argv[1], errors="replace").read(), sys.argv[2], sys.argv[3]
for span in re.split(r"(?m)^\s*Span #\d+\s*$", log)[1:]:
    fields = dict(re.findall(r"(?m)^\s*(Trace ID|Parent ID|ID|Name|Kind)\s*: ?(.*)$", span))
    if fields.get(key, "").startswith(value):
        print(" ".join("%s=%s" % (name.lower().replace(" ", "-"), fields.get(name, "")) for name in ("Kind", "Name", "ID", "Parent ID")))
PY
}
complete() { [ "$(spans 'Trace ID' "$trace" | wc -l)" = 2 ]; }
eventually complete
spans 'Trace ID' "$trace" | sed 's/^/  /'
echo "== and the checks of the server, with the rules that decided"
eventually received 'checknothing:closed.istio-system(denier)'
eventually received 'listentry:callers.istio-system(listchecker)'
for name in /istio.mixer.v1.Mixer/Check listentry:callers checknothing:closed; do spans Name "$name" | sed -n '1s/^/  /p'; done
if [ "${STAY:-}" = 1 ]; then
  echo
  read -r -p "The client's proxy listens on $host:$OUTBOUND_PORT, Prometheus on $host:$PROMETHEUS_PORT, ControlZ of galley on $host:$CTRLZ_PORT; press Enter to end. "
fi
echo
finish || fail "a process ended with an error"
echo "== everything has stopped"
