# N10 for the entrypoint, and B13 for the init it is to commands that are not ours. Needs root for the pid namespace.

signal_tests() {
  need unshare nft ip
  stop_during_setup
  init_duties
}

# as_init WORDS: runs WORDS as PID 1 of new pid and network namespaces; INIT is its pid out here.
as_init() {
  unshare -n -p -f --mount-proc -m "$@" >"$TMP/out" 2>"$TMP/err" </dev/null &
  OUTER=$!
  STARTED+=($OUTER)
  local turn
  for turn in $(seq 100); do INIT=$(pgrep -P $OUTER | head -n1) && [ -n "$INIT" ] && break; sleep 0.01; done
}
# ends_within NAME MILLISECONDS CODE: waits for the outer process.
ends_within() {
  local start rc
  start=$(date +%s%N)
  timeout 20 tail -s 0.01 --pid="$OUTER" -f /dev/null || kill -KILL "$OUTER" "$INIT" 2>/dev/null
  wait $OUTER
  rc=$?
  local ms=$((($(date +%s%N) - start) / 1000000))
  SEEN="exit $rc after $ms ms: $(cat "$TMP/err")"
  check "$1 ($ms ms, exit $rc)" [ $ms -lt "$2" -a $rc = "$3" ]
}

stop_during_setup() {
  printf '#!/bin/sh\nsleep 30\n' >"$TMP/nft-hangs"
  chmod 755 "$TMP/nft-hangs"
  cat >"$TMP/hang" <<EOF
mount --bind $TMP/nft-hangs /usr/sbin/nft || exit 99
ip link set lo up
AX_NET_POLICY=none exec $BIN enter -- touch $TMP/ran
EOF
  local wait signal
  for wait in 0.05 0.2 0.5 1; do
    rm -f "$TMP/ran"
    as_init bash "$TMP/hang"
    sleep $wait
    kill -TERM "$INIT"
    ends_within "N10 TERM $wait s into a hanging nft" 2000 143
    check "N10 the payload did not run" [ ! -e "$TMP/ran" ]
  done
  for signal in INT:130 HUP:129 QUIT:131; do
    as_init bash "$TMP/hang"
    sleep 0.4
    kill -"${signal%:*}" "$INIT"
    ends_within "N10 ${signal%:*} into a hanging nft" 2000 "${signal#*:}"
  done
  SEEN=$(pgrep -f "$TMP/nft-hangs" || true)
  check "N10 nothing of nft is left" [ -z "$SEEN" ]
}

init_duties() {
  as_init env AX_NET_POLICY=external "$BIN" enter -- bash -c 'trap "echo bye; exit 7" TERM; sleep 30 & wait'
  sleep 0.5
  kill -TERM "$INIT"
  ends_within "init passes TERM on and hands the code back" 2000 7
  SEEN=$(cat "$TMP/out")
  check "init: the command's own handler ran" [ "$SEEN" = bye ]
  as_init env AX_NET_POLICY=external "$BIN" enter -- bash -c 'trap "" TERM; while :; do sleep 1; done'
  sleep 0.5
  kill -TERM "$INIT"
  ends_within "init ends a command that ignores TERM" 2300 137
  as_init env AX_NET_POLICY=external "$BIN" enter -- bash -c 'trap "" TERM; while :; do sleep 1; done'
  sleep 0.5
  kill -TERM "$INIT"
  sleep 0.1
  kill -TERM "$INIT"
  ends_within "init: a second TERM means at once" 1000 137
  as_init env AX_NET_POLICY=external "$BIN" enter -- bash -c 'kill -SEGV $$'
  ends_within "init: a signal death is 128 + n" 2000 139
  as_init env AX_NET_POLICY=external "$BIN" enter -- bash -c 'for i in $(seq 200); do (sleep 0.05 &); done; sleep 1; ps -eo stat= | grep -c ^Z'
  ends_within "init: orphans" 10000 1
  SEEN="$(cat "$TMP/out") zombies"
  check "B13 init leaves no zombie of 200 orphans" [ "$(cat "$TMP/out")" = 0 ]
  as_init env AX_NET_POLICY=external "$BIN" enter -- bash -c 'grep SigBlk /proc/self/status'
  ends_within "init: a child's signals" 2000 0
  SEEN=$(cat "$TMP/out")
  check "init: the command starts with no signal blocked" \
    eval "! printf '%s' \"\$SEEN\" | grep -qE '[1-9a-f]$'"
  as_init env AX_NET_POLICY=external "$BIN" enter -- no-such-command
  ends_within "init: a missing command" 2000 127
}
