# N10 for the entrypoint, and B13 for the init it is to commands that are not ours. Needs root for the pid namespace.

signal_tests() {
  need unshare nft ip
  stop_during_setup
  strays_during_setup
  no_room_for_files
  init_duties
}

# as_init WORDS: runs WORDS as PID 1 of new pid and network namespaces; INIT is its pid out here.
as_init() {
  unshare -n -p -f --mount-proc -m "$@" >"$TMP/out" 2>"$TMP/err" </dev/null &
  OUTER=$!
  STARTED+=($OUTER)
  wait_for 'INIT=$(pgrep -P $OUTER) || ! kill -0 $OUTER 2>/dev/null'
}
# Sets MS and RC to how the outer process ended. What hangs is killed.
ending() {
  local start
  start=$(now_ms)
  timeout 60 tail -s 0.01 --pid="$OUTER" -f /dev/null || kill -KILL "$OUTER" "$INIT" 2>/dev/null
  wait $OUTER
  RC=$? MS=$(($(now_ms) - start))
  SEEN="exit $RC after $MS ms: $(cat "$TMP/out" "$TMP/err")"
}
# ends NAME CODE: each way to end has a code of its own, so that no time need be measured.
ends() {
  ending
  check "$1 ($MS ms, exit $RC)" [ $RC = "$2" ]
}

stop_during_setup() {
  printf '#!/bin/bash\ngrep SigBlk /proc/self/status >%s\necho $$ >%s\nexec sleep 100\n' "$TMP/mask" "$TMP/hangs" >"$TMP/nft-hangs"
  chmod 755 "$TMP/nft-hangs"
  cat >"$TMP/hang" <<EOF
mount --bind $TMP/nft-hangs /usr/sbin/nft || exit 99
ip link set lo up
AX_NET_POLICY=none exec $BIN enter -- touch $TMP/ran
EOF
  local signal
  rm -f "$TMP/ran" "$TMP/hangs"
  as_init bash "$TMP/hang"
  wait_for 'hears "$INIT"'
  kill -TERM "$INIT"
  ends "N10 TERM as soon as it is heard" 143
  # Not heard it would end when nft's time is over, with 77.
  for signal in TERM:143 INT:130 HUP:129 QUIT:131; do
    rm -f "$TMP/hangs"
    as_init bash "$TMP/hang"
    wait_for '[ -s "$TMP/hangs" ]'
    kill -"${signal%:*}" "$INIT"
    ends "N10 ${signal%:*} into a hanging nft" "${signal#*:}"
  done
  check "N10 the payload did not run" [ ! -e "$TMP/ran" ]
}

# as_any: the same start in the machine's own pid namespace, where no signal is kept from it; $NFT is its nft's group.
as_any() {
  rm -f "$TMP/hangs"
  unshare -n -m bash "$TMP/hang" >"$TMP/out" 2>"$TMP/err" </dev/null &
  OUTER=$! INIT=$!
  STARTED+=($OUTER)
  wait_for '[ -s "$TMP/hangs" ]'
  NFT=$(cat "$TMP/hangs")
}
nft_is_gone() {
  wait_for '! alive "$NFT"'
  SEEN="the group $NFT is there"
  check "N10 $1: nothing of nft is left" eval '! alive "$NFT"'
}

# Signals that mean nothing to us. That it was there until the last one is told by how it ends.
strays_during_setup() {
  local signal
  as_any
  SEEN=$(cat "$TMP/mask")
  check "N10 nft starts with no signal blocked" eval "[[ '$SEEN' == SigBlk:*0000000000000000 ]]"
  for signal in USR1 USR2 ALRM VTALRM PROF IO PWR STKFLT XFSZ RTMIN RTMAX; do kill -$signal "$OUTER"; done
  kill -TERM "$OUTER"
  ends "N10 signals without a meaning during set-up change nothing" 143
  nft_is_gone "after TERM"
  as_any
  kill -KILL "$OUTER"
  wait "$OUTER" 2>/dev/null
  nft_is_gone "after KILL"
  # But what whoever started us has ignored.
  local before
  before=$(cat /proc/self/status | grep -E '^Sig(Blk|Ign|Cgt)')
  SEEN=$(env -i AX_NET_POLICY=external "$BIN" enter -- cat /proc/self/status 2>/dev/null | grep -E '^Sig(Blk|Ign|Cgt)')
  check "N10 the command starts with each signal's default" [ "$SEEN" = "$before" ]
}

# The limit a shell or an engine may set. Standard error is a pipe here, which the limit spares.
no_room_for_files() {
  rm -f "$TMP/ran"
  SEEN=$(unshare -n -m bash -c "ip link set lo up; ulimit -f 0; AX_NET_POLICY=none exec $BIN enter -- touch $TMP/ran" 2>&1 >/dev/null </dev/null; echo "exit $?")
  check "N04 a file size limit of nothing: named, and nothing runs" \
    eval "[[ \$SEEN == 'ax-runner enter: '*'ulimit -f'*\$'\nexit 77' && ! -e '$TMP/ran' ]]"
}

init_duties() {
  local turn
  # as_ready COMMANDS: the command says when it is ready.
  as_ready() {
    as_init env AX_NET_POLICY=external "$BIN" enter -- bash -c "$1"
    wait_for 'grep -q ready "$TMP/out"'
  }
  as_ready 'trap "echo bye; exit 7" TERM; echo ready; sleep 300 & wait'
  kill -TERM "$INIT"
  ends "init passes TERM on and hands the code back" 7
  SEEN=$(cat "$TMP/out")
  check "init: the command's own handler ran" [ "$SEEN" = $'ready\nbye' ]
  as_ready 'trap "" TERM; echo ready; while :; do sleep 1; done'
  kill -TERM "$INIT"
  ends "init ends a command that ignores TERM" 137
  # The grace is there each time if it is, a machine that was busy for a moment is not.
  for turn in 1 2 3; do
    as_ready 'trap "" TERM; echo ready; while :; do sleep 1; done'
    kill -TERM "$INIT"
    sleep 0.1
    kill -TERM "$INIT"
    ending
    [ $MS -ge 1000 ] || break
  done
  check "init: a second TERM means at once ($MS ms, exit $RC)" [ $MS -lt 1000 -a $RC = 137 ]
  as_init env AX_NET_POLICY=external "$BIN" enter -- bash -c 'kill -SEGV $$'
  ends "init: a signal death is 128 + n" 139
  as_init env AX_NET_POLICY=external "$BIN" enter -- bash -c \
    'for i in $(seq 200); do (sleep 0.05 &); done; for i in $(seq 300); do left=$(ps -eo stat=,comm= | grep -cE "^Z|sleep"); [ $left = 0 ] && break; sleep 0.1; done; echo $left'
  ends "init: orphans" 0
  SEEN="$(cat "$TMP/out") left"
  check "B13 init leaves no zombie of 200 orphans" [ "$(cat "$TMP/out")" = 0 ]
  as_init env AX_NET_POLICY=external "$BIN" enter -- bash -c 'grep SigBlk /proc/self/status'
  ends "init: a child's signals" 0
  SEEN=$(cat "$TMP/out")
  check "init: the command starts with no signal blocked" \
    eval "! printf '%s' \"\$SEEN\" | grep -qE '[1-9a-f]$'"
  as_init env AX_NET_POLICY=external "$BIN" enter -- no-such-command
  ends "init: a missing command" 127
}
