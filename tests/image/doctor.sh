# doctor: every answer is found by trying, so each is provoked.

doctor_tests() {
  need unshare ip jq socat
  local quiet="ip link set lo up" wired
  wired="$quiet; ip link add d0 type veth peer name d1; ip addr add 10.98.0.1/24 dev d0; ip link set d0 up; ip link set d1 up; ip route add default via 10.98.0.2"
  doctor "no network" "$quiet" "" network enforced
  doctor "a network and no rules" "$wired" "" network absent
  doctor "a network closed by enter" "$wired" "env AX_NET_POLICY=none $BIN enter --" network enforced
  doctor "a claim that is not true" "$wired" "env AX_NET_ENFORCED_BY=gate" network failed
  doctor "a claim about the platform" "$wired" "env AX_NET_ENFORCED_BY=external:x" network absent
  doctor "root" "$quiet" "" user absent
  doctor "after enter" "$quiet" "$BIN enter --" user enforced
  doctor "root" "$quiet" "" capabilities absent
  doctor "after enter" "$quiet" "$BIN enter --" capabilities enforced
  doctor "after enter" "$quiet" "$BIN enter --" bounding-set enforced
  doctor "after enter" "$quiet" "$BIN enter --" no-new-privs enforced
  doctor "after enter" "$quiet" "$BIN enter --" socket-families enforced
  doctor "as root, bare" "$quiet" "" socket-families absent
  doctor "a writable root" "$quiet" "" root-read-only absent
  doctor "a read-only root" "$quiet; mount --bind / / && cd / && mount -o remount,bind,ro / && mount -t tmpfs -o noexec,nosuid,nodev none /tmp; export AXBIN" "chroot /" root-read-only enforced
  doctor "a tmpfs without exec" "$quiet; mount -t tmpfs -o noexec,nosuid,nodev none /tmp" "" tmp enforced
  doctor "a tmpfs with exec" "$quiet; mount -t tmpfs -o nosuid,nodev none /tmp" "" tmp absent
  mkdir -p "$TMP/closed" "$TMP/open"
  chmod 700 "$TMP/closed"
  chown 1000 "$TMP/open"
  doctor "a workspace of somebody else" "$quiet" "env AX_WORKSPACE=$TMP/closed $BIN enter --" workspace failed
  doctor "an own workspace" "$quiet" "env AX_WORKSPACE=$TMP/open $BIN enter --" workspace enforced
  doctor "no host socket" "$quiet" "env AX_IPC_SOCKET=$TMP/none.sock" host failed
  background socat UNIX-LISTEN:"$TMP/host.sock",fork,mode=700 EXEC:cat
  wait_for '[ -S "$TMP/host.sock" ]'
  doctor "a host socket" "$quiet" "env AX_IPC_SOCKET=$TMP/host.sock" host enforced
  doctor "a host socket of another user" "$quiet" "env AX_IPC_SOCKET=$TMP/host.sock $BIN enter --" host failed
  doctor "a CA variable that names nothing" "$quiet" "env SSL_CERT_FILE=/etc/ax/ca.crt" ca failed
  what_doctor_sends
  unshare -n "$BIN" doctor --require nonsense >/dev/null 2>"$TMP/err"
  SEEN="exit $?: $(cat "$TMP/err")"
  check "doctor: a layer that is none is an error" eval "printf '%s' \"\$SEEN\" | grep -q '^exit 2'"
}

# told PATTERN: to how many addresses it was sent.
told() { grep "$1" <<<"$SEEN" | grep -o '> [^ ]*:' | sort -u | wc -l; }

# What its help says it sends, and nothing with --no-probe.
what_doctor_sends() {
  need tcpdump
  network_up || { not_ok "doctor: network" "the namespaces could not be made"; return; }
  sniff_start
  in_agent env -i "$BIN" doctor --json >"$TMP/out" 2>"$TMP/err"
  sniff_stop "$NOISE or (arp) or (icmp6 and ip6[40] = 135) or ((host 192.0.2.1 or host 2001:db8::1) and port 9)"
  SEEN="$PACKETS other packets: $SHOWN"
  check "doctor sends packets to the two addresses for documentation only" [ "$PACKETS" = 0 ]
  SEEN=$(sniffed port 9)
  # The kernel may have repeated one.
  local each=$(has_ipv6 && echo 2 || echo 1)
  check "doctor sends a datagram and tries a connection to each" \
    [ "$(told 'UDP, length 5') $(told 'Flags \[S\]')" = "$each $each" ]
  sniff_start
  in_agent env -i "$BIN" doctor --json --no-probe --require network >"$TMP/out" 2>"$TMP/err"
  RC=$?
  sniff_stop "$NOISE"
  SEEN="exit $RC, $PACKETS packets: $SHOWN $(jq -c '.layers[0]' "$TMP/out")"
  check "doctor --no-probe sends nothing and claims nothing" eval "[ $RC = 1 -a $PACKETS = 0 ] && jq -e '.layers[0] | .name == \"network\" and .state == \"absent\"' '$TMP/out' >/dev/null"
  unshare -n "$BIN" doctor --no-probe --require network >/dev/null 2>&1
  SEEN="exit $?"
  check "doctor --no-probe knows that there is only loopback" [ "$SEEN" = "exit 0" ]
  network_down
}

# doctor NAME SETUP WRAP LAYER STATE: what doctor says about LAYER, and that --require agrees.
doctor() {
  local name=$1 setup=$2 wrap=$3 layer=$4 state=$5 text code want
  text=$(unshare -n -m bash -c "$(stage) $setup; exec $wrap $(placed) doctor --json --require $layer" 2>"$TMP/err" </dev/null)
  code=$?
  SEEN="exit $code: $(printf '%s' "$text" | jq -c ".layers[] | select(.name==\"$layer\")" 2>/dev/null) $(cat "$TMP/err")"
  want=$([ "$state" = enforced ] && echo 0 || echo 1)
  check "doctor, $name: $layer is $state" eval \
    "[ $code = $want ] && printf '%s' \"\$SEEN\" | grep -q '\"state\":\"$state\"'"
}
# The program by a descriptor path that survives a mount over /tmp.
stage() { printf 'mkdir -p /run/ax-doctor-%s && mount -t tmpfs none /run/ax-doctor-%s && cp %s /run/ax-doctor-%s/ax-runner;' $$ $$ "$BIN" $$; }
placed() { printf '/run/ax-doctor-%s/ax-runner' $$; }
