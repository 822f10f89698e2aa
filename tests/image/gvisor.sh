# The image under gVisor (runsc): another kernel, so every promise is tried again. Uses what containers.sh has built.

GVISOR="--runtime=runsc"
GVISOR_FLAGS="--runtime-flag=ignore-cgroups --runtime-flag=platform=ptrace --runtime-flag=network=none --runtime-flag=host-uds=all"

gvisor_tests() {
  have runsc || { skip gvisor "runsc is not installed"; return; }
  need podman
  engine_up && image_up || { not_ok gvisor "$(tail -n 5 "$TMP/build.log")"; return; }
  ENGINE_FLAGS="$GVISOR $GVISOR_FLAGS"
  gvisor_boxed -- bash -c 'echo in'
  if [ "$OUT" != in ]; then skip gvisor "a container does not start: $(tail -n1 "$TMP/err")"; return; fi
  gvisor_entrypoint
  gvisor_processes
  ENGINE_FLAGS=
}

gvisor_boxed() {
  local flags=() start
  while [ "$1" != -- ]; do flags+=("$1"); shift; done
  shift
  start=$(now_ms)
  timeout 300 podman $GVISOR $GVISOR_FLAGS run --rm --label "ax-image-test=$$" --network=none "${flags[@]}" $IMAGE "$@" >"$TMP/out" 2>"$TMP/err" </dev/null
  RC=$?
  MS=$(($(now_ms) - start))
  OUT=$(cat "$TMP/out") ERR=$(cat "$TMP/err")
  SEEN="exit $RC: $OUT $ERR"
}

gvisor_entrypoint() {
  gvisor_boxed --user 0 -e AX_NET_POLICY=none -- echo RAN
  printf '      %s\n' "$(tail -n1 "$TMP/err")"
  check "N05 a policy of ours fails closed and names gVisor" eval "[ $RC = 77 -a -z \"\$OUT\" ] && grep -qi gvisor '$TMP/err'"
  gvisor_boxed -e AX_NET_POLICY=external -- bash -c "$LOOK"
  check "N05 external starts and says who enforces" eval "[ $RC = 0 ] && grep -q egress_external '$TMP/err' && grep -q enforcedBy '$TMP/err'"
  gvisor_boxed -- bash -c "$LOOK"
  check "N05 auto without a network is isolated" eval "[ $RC = 0 ] && grep -q egress_isolated '$TMP/err'"
  gvisor_boxed --user 0 --cap-add NET_ADMIN,SYS_ADMIN,SETUID,SETGID,SETPCAP -e AX_NET_POLICY=isolated -- ax-runner doctor --json --require user,capabilities,bounding-set,no-new-privs,socket-families
  check "N06 started as root with capabilities: everything is dropped" [ "$RC" = 0 ]
  gvisor_boxed -- ax-runner doctor --json --require network,gvisor,user,capabilities,no-new-privs
  check "doctor knows gVisor" [ "$RC" = 0 ]
}

gvisor_processes() {
  [ -x "$DEVHOST" ] || { skip "gVisor: B01, B02, B08, B13" "no ax-devhost"; return; }
  local calls
  calls=$(bash_calls 'sleep 300 & echo done' '(while :; do echo x; sleep .1; done) & echo done' 'nohup setsid sleep 300 & echo done' \
    'kill -9 $$' 'kill -TERM $$' 'exit 7' 'no_such_command' 'for i in $(seq 50); do (sleep .05 &); done; sleep 1; for i in $(seq 300); do z=$(ps -eo stat= | grep -c ^Z); [ $z = 0 ] && break; sleep .1; done; echo $z zombies' 'echo still here')
  turn "$calls" --network=none --cap-drop=ALL --read-only --tmpfs /tmp:rw,noexec,nosuid,size=64m
  check "gVisor: a turn over the host's socket" [ "$RC" = 0 ]
  local exits
  exits=$(sed -n 's/^  bash  .* exit \([0-9]*\)$/\1/p' "$TMP/err" | paste -sd' ')
  SEEN="exits $exits; $SEEN"
  check "gVisor B01 B08: what is held open does not hold the call; signals are 128 + n ($exits)" eval "[[ '$exits' == '0 0 0 137 143 7 127 '* ]]"
  check "gVisor B13: no zombies" grep -q '| 0 zombies' "$TMP/err"
  calls=$(jq -c -n '[{tools:[{name:"bash",args:{command:"touch tick; setsid bash -c '"'"'trap \"\" TERM HUP; while :; do date >>/workspace/tick; sleep .2; done'"'"' & sleep 300",timeout_ms:2000}}]},{tools:[{name:"bash",args:{command:"a=$(wc -c <tick); sleep 2; b=$(wc -c <tick); [ $a = $b ] && echo silent"}}]},{text:["done"]}]')
  turn "$calls" --network=none --cap-drop=ALL --read-only --tmpfs /tmp:rw,noexec,nosuid,size=64m
  check "gVisor B02: a call that ran out of time leaves nothing behind" eval "[ $RC = 0 ] && grep -q '| silent' '$TMP/err'"
  # This kernel serves the environment of any process to its user.
  calls=$(bash_calls 'cat /proc/1/environ /proc/$PPID/environ | tr "\0" "\n"; echo looked')
  turn "$calls" --network=none --cap-drop=ALL --read-only --tmpfs /tmp:rw,noexec,nosuid,size=64m -e MY_SECRET=canary-7f3a
  check "gVisor B10: what the runner was started with cannot be read" eval "[ $RC = 0 ] && grep -q '| looked' '$TMP/err' && ! grep -q 'canary-7f3a' '$TMP/err'"
}
