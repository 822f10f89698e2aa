# N01, N02, N04, N09: what leaves the box, with a sniffer at the other end. Needs root; makes its own namespaces.

. "$HERE/names.sh"

ATTACK="/usr/bin/python3 $TMP/attack.py $PEER4 $PEER6"
ALLOWED_TUPLE="$NOISE or (arp) or (tcp and host $PEER4 and port 3128)"

net_tests() {
  install -m 644 "$HERE/attack.py" "$TMP/attack.py"
  need ip tcpdump nft socat python3 unshare dig curl ping iconv git
  network_up || { not_ok network "the namespaces could not be made"; return; }
  serve TCP4-LISTEN:3128,bind=$PEER4,fork,reuseaddr
  ! has_ipv6 || serve TCP6-LISTEN:3129,bind=[$PEER6],fork,reuseaddr
  serve TCP4-LISTEN:80,bind=1.2.3.4,fork,reuseaddr
  serve TCP4-LISTEN:81,bind=$PEER4,fork,reuseaddr
  serve UDP4-LISTEN:53,bind=8.8.8.8,fork,reuseaddr
  sniffer_sees
  closed_ways
  open_ways
  policies_that_do_not_start
  environments_that_do_not_start
  what_a_parent_leaves
  old_flows
  inbound
  reruns
  tables_of_others
  name_servers
  servers_in_a_row
  sidecar_names
  resolver_files
  network_down
}

# The control: without rules the same tries are seen, so silence later means something.
sniffer_sees() {
  sniff_start
  in_agent setpriv --reuid 1000 --regid 1000 --clear-groups $ATTACK v4 v6 dns other namespaces >"$TMP/tries" 2>&1
  # What was begun here is over before the first count.
  sniff_quiet
  sniff_stop arp
  SEEN="$PACKETS packets, $(grep -c SENT "$TMP/tries") tries went out: $SHOWN"
  check "control: without rules the tries reach the sniffer ($SEEN)" [ "$PACKETS" -gt 20 ]
}

# closed NAME GROUPS [NAME=value...]: the payload tries GROUPS; nothing beyond the allowed tuple may be seen.
closed() {
  local name=$1 groups=$2
  shift 2
  reset_rules
  sniff_start
  run_enter "$@" -- -- $ATTACK $groups
  # With the rules in place: once they are gone for the next policy, what the kernel still repeats would be seen.
  sniff_quiet
  # Without a destination not even a neighbour is asked for.
  sniff_stop "$([[ $1 == *=none ]] && echo "$NOISE" || echo "$ALLOWED_TUPLE")"
  printf '      %-44s exit %s, %s packets left, %s tries refused\n' "$name" "$RC" "$PACKETS" "$(grep -c refused "$TMP/out")"
  SEEN="exit $RC, $PACKETS packets: $SHOWN $ERR"
  check "$name: nothing leaves" [ "$RC" = 0 -a "$PACKETS" = 0 ]
  SEEN="the word CANARY was seen"
  check "$name: no canary" eval "! grep -qa CANARY '$PCAP'"
}

closed_ways() {
  local gate="AX_NET_POLICY=gate AX_NET_ALLOW=$PEER4:3128"
  closed "N01 none, IPv6 and IPv4" "v4 v6" AX_NET_POLICY=none
  closed "N02 none, name service" dns AX_NET_POLICY=none
  closed "N09 none, other protocols" other AX_NET_POLICY=none
  closed "N09 none, namespaces of the agent's own" namespaces AX_NET_POLICY=none
  closed "N01 gate, IPv6 and IPv4" "v4 v6" $gate
  closed "N02 gate, name service" dns $gate
  closed "N09 gate, other protocols" other $gate
  closed "N09 gate, namespaces of the agent's own" namespaces $gate
  run_enter $gate -- -- $ATTACK families
  SEEN="exit $RC: $(grep SENT "$TMP/out" | paste -sd' ') $ERR"
  check "N09 no socket family but the four that are needed" eval "[ $RC = 0 ] && ! grep -q SENT '$TMP/out'"
  SEEN=$(in_agent nft -j list ruleset)
  for hook in output input forward postrouting; do
    check "rules: $hook is hooked with policy drop in family inet" \
      eval "printf '%s' \"\$SEEN\" | jq -e '[.nftables[].chain? | select(. and .family==\"inet\" and .hook==\"$hook\" and .policy==\"drop\")] | length == 1' >/dev/null"
  done
  check "rules: the counters moved" \
    eval "printf '%s' \"\$SEEN\" | jq -e '[.nftables[].rule? | select(.) | .expr[]? | .counter?.packets // 0] | add > 0' >/dev/null"
  # A new address after the start opens nothing.
  ip -n "$AGENT_NS" addr add 2001:db8:5::5/64 dev eth0 nodad
  sniff_start
  in_agent setpriv --reuid 1000 --regid 1000 --clear-groups $ATTACK v6 >/dev/null 2>&1
  sniff_stop "$ALLOWED_TUPLE"
  SEEN=$SHOWN
  check "N01 an address added after the start opens nothing" [ "$PACKETS" = 0 ]
  ip -n "$AGENT_NS" addr del 2001:db8:5::5/64 dev eth0
  # The embedded resolver of an engine: reachable over loopback, its port rewritten before an ordinary filter looks.
  reset_rules
  in_agent nft -f - <<EOF
table ip engine {
  chain out { type nat hook output priority -100; ip daddr 127.0.0.11 udp dport 53 dnat to 127.0.0.11:40053; }
}
EOF
  : >"$TMP/resolver"
  background "${IN_AGENT[@]}" socat -u UDP4-RECVFROM:40053,bind=127.0.0.11,fork OPEN:"$TMP/resolver",append
  wait_for 'listens -u 40053 in_agent'
  run_enter AX_NET_POLICY=none -- -- $ATTACK dns
  sleep 0.3
  SEEN="exit $RC; $(wc -c <"$TMP/resolver") bytes arrived"
  check "N02 an embedded resolver behind a port rewrite hears nothing" [ "$RC" = 0 -a ! -s "$TMP/resolver" ]
  SEEN=$(in_agent nft list tables)
  check "other tables are left alone" eval "printf '%s' \"\$SEEN\" | grep -q 'table ip engine'"
  translated_loopback
}

# A translation of somebody else's that turns loopback into a way out, or into the engine's resolver.
translated_loopback() {
  reset_rules
  in_agent sysctl -qw net.ipv4.conf.all.route_localnet=1
  cat >"$TMP/platform" <<EOF
table ip platform {
  chain out {
    type nat hook output priority -100
    ip daddr 127.0.0.53 udp dport 53 dnat to 8.8.8.8:53
    ip daddr 127.0.0.54 tcp dport 80 dnat to 1.2.3.4:80
    ip daddr 127.0.0.55 udp dport 53 dnat to 127.0.0.11:40053
    ip daddr 127.0.0.56 tcp dport 80 dnat to $PEER4:3128
    ip daddr 1.2.3.4 tcp dport 81 dnat to $PEER4:81
  }
  chain post { type nat hook postrouting priority 100; oifname "eth0" masquerade; }
}
EOF
  cat >"$TMP/translated" <<'EOF'
import socket, sys
for to in ("127.0.0.53", 53), ("127.0.0.55", 53):
    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"CANARY", to)
        print(to[0], "SENT")
    except OSError as error:
        print(to[0], error)
for to in ("127.0.0.54", 80), ("1.2.3.4", 81), ("127.0.0.56", 80):
    c = socket.socket()
    c.settimeout(60 if to[0] in sys.argv else 1)
    try:
        c.connect(to)
        print(to[0], "CONNECTED", c.recv(40))
    except OSError as error:
        print(to[0], error)
EOF
  : >"$TMP/resolver"
  in_agent nft -f "$TMP/platform"
  sniff_start
  run_enter AX_NET_POLICY=none -- -- /usr/bin/python3 "$TMP/translated"
  sniff_quiet # with rules and translation in place
  sniff_stop "$NOISE"
  SEEN="exit $RC, $PACKETS packets: $SHOWN $OUT $ERR"
  check "N02 none, loopback translated to the outside: nothing leaves" [ "$RC" = 0 -a "$PACKETS" = 0 ]
  SEEN="$(wc -c <"$TMP/resolver") bytes at the resolver: $OUT"
  check "N02 none, loopback translated: the sender is told, and the engine's resolver hears nothing" \
    eval "[ ! -s '$TMP/resolver' ] && ! grep -qE 'SENT|CONNECTED' '$TMP/out'"
  reset_rules
  in_agent nft -f "$TMP/platform"
  sniff_start
  run_enter AX_NET_POLICY=allow AX_NET_ALLOW=$PEER4:3128,1.2.3.4:81 -- -- /usr/bin/python3 "$TMP/translated" 127.0.0.56
  sniff_quiet # with rules and translation in place
  sniff_stop "$ALLOWED_TUPLE"
  SEEN="exit $RC, $PACKETS packets: $SHOWN $OUT $ERR"
  check "N02 allow, a destination translated to one that is not allowed: nothing leaves" [ "$RC" = 0 -a "$PACKETS" = 0 ]
  check "allow: loopback translated to what is allowed answers" grep -q '127.0.0.56 CONNECTED.*greeting' "$TMP/out"
  in_agent sysctl -qw net.ipv4.conf.all.route_localnet=0
  reset_rules
}

open_ways() {
  local connect="socat $PATIENT - TCP:$PEER4:3128"
  reset_rules
  run_enter AX_NET_POLICY=gate AX_NET_ALLOW=$PEER4:3128 -- -- $connect
  SEEN="exit $RC: $OUT $ERR"
  check "gate: the named proxy answers" [ "$OUT" = greeting ]
  reset_rules
  run_enter AX_HOST_URL=http://$PEER4:3128 -- -- $connect
  check "auto with NET_ADMIN: a gate to the host" [ "$OUT" = greeting ]
  reset_rules
  if has_ipv6; then
    run_enter AX_NET_POLICY=allow "AX_NET_ALLOW=[$PEER6]:3129" -- -- socat $PATIENT - "TCP6:[$PEER6]:3129"
    SEEN="exit $RC: $OUT $ERR"
    check "allow: IPv6 with a neighbour that must be found" [ "$OUT" = greeting ]
  else
    skip "allow: IPv6" "this kernel has none"
  fi
  reset_rules
  run_enter AX_NET_POLICY=allow AX_NET_ALLOW=twice.test:3128 -- -- socat $PATIENT - TCP4:twice.test:3128
  SEEN="exit $RC: $OUT $ERR"
  check "allow: a name with the same address twice works, and after the rules too" [ "$OUT" = greeting ]
  reset_rules
  run_enter AX_NET_POLICY=gate AX_HOST_URL=http://known.test:3128/x -- -- bash -c 'echo $AX_HOST_URL'
  SEEN="exit $RC: $OUT $ERR"
  check "gate: a plain http name becomes its address" [ "$OUT" = "http://$PEER4:3128/x" ]
  printf 'mode = "allow"\nallow = ["%s:3128"]\n' $PEER4 >"$TMP/policy.toml"
  reset_rules
  run_enter -- --policy "$TMP/policy.toml" -- $connect
  check "a policy file" [ "$OUT" = greeting ]
}

# Set-up has ten seconds (CASES N04), which it keeps by its own clock; here is only told whether it hangs.
HANG=60000

# refused NAME CODE WORD [NAME=value...] [-- enter words]: must end with CODE, say WORD in one line, run and send nothing.
refused() {
  local name=$1 code=$2 word=$3 vars=()
  shift 3
  while [ $# -gt 0 ] && [ "$1" != -- ]; do vars+=("$1"); shift; done
  [ $# -gt 0 ] && shift
  rm -f "$TMP/ran"
  sniff_start
  run_enter ${vars[@]+"${vars[@]}"} -- "$@" -- touch "$TMP/ran"
  sniff_stop "${EXPECTED:-$NOISE}"
  local lines
  lines=$(grep -c '^ax-runner enter: ' "$TMP/err")
  printf '      %-44s exit %s, %s packets, %s ms: %s\n' "$name" "$RC" "$PACKETS" "$MS" "$(tail -n1 "$TMP/err")"
  SEEN="exit $RC, $PACKETS packets, $MS ms, $lines lines: $SHOWN $ERR"
  check "$name" eval "[ $RC = $code -a ! -e '$TMP/ran' -a $PACKETS = 0 -a $MS -lt $HANG -a $lines = 1 ] && grep -qi -- '$word' '$TMP/err'"
}

policies_that_do_not_start() {
  reset_rules
  sniff_start && sniff_quiet && sniff_stop # of the connections before
  refused "N04 empty policy" 78 AX_NET_POLICY AX_NET_POLICY=
  refused "N04 unknown mode" 78 AX_NET_POLICY AX_NET_POLICY=off
  refused "N04 garbage address" 78 256.0.0.1 AX_NET_POLICY=gate AX_NET_ALLOW=256.0.0.1:80
  refused "N04 empty list" 78 empty AX_NET_POLICY=gate AX_NET_ALLOW=
  refused "N04 empty host URL" 78 'names no destination' AX_NET_POLICY=gate AX_HOST_URL=
  refused "N04 name service through the gate" 78 'name service' AX_NET_POLICY=gate AX_NET_ALLOW=8.8.8.8:53
  printf '{"mode":"none","mode":"external"}' >"$TMP/p.json"
  refused "N04 duplicate key" 78 duplicate -- --policy "$TMP/p.json"
  printf 'mode = "none"\nalow = ["1.2.3.4:80"]\n' >"$TMP/p.toml"
  refused "N04 unknown key" 78 alow -- --policy "$TMP/p.toml"
  printf 'mode = "none"\n' >"$TMP/p.toml"
  refused "N04 a variable that would switch the file off" 78 AX_NET_POLICY AX_NET_POLICY=external -- --policy "$TMP/p.toml"
  refused "N04 a variable that would widen the file" 78 AX_NET_ALLOW AX_NET_ALLOW=1.2.3.4:80 -- --policy "$TMP/p.toml"
  printf '{"mo\\u0064e":"none","mode":"external"}' >"$TMP/p.json"
  refused "N04 duplicate key, one spelt with an escape" 78 duplicate -- --policy "$TMP/p.json"
  printf 'mode = "none"\n' | iconv -t UTF-16 >"$TMP/p.toml"
  refused "N04 a policy in UTF-16" 78 UTF-8 -- --policy "$TMP/p.toml"
  printf 'mode = "none"\n\0' >"$TMP/p.toml"
  refused "N04 a policy with a NUL" 78 'not a policy' -- --policy "$TMP/p.toml"
  { printf 'mode = "none"\n#'; head -c 2000000 /dev/zero | tr '\0' x; } >"$TMP/p.toml"
  refused "N04 a policy of two megabytes" 78 'too large' -- --policy "$TMP/p.toml"
  { printf '{"mode":"none","allow":'; head -c 100000 /dev/zero | tr '\0' '['; } >"$TMP/p.json"
  refused "N04 a policy nested without end" 78 'not a policy' -- --policy "$TMP/p.json"
  printf 'mode: none\n' >"$TMP/p.yaml"
  refused "N04 a policy in YAML" 78 'not a policy' -- --policy "$TMP/p.yaml"
  ln -s nowhere "$TMP/dangling"
  refused "N04 a policy that is a dangling link" 78 'cannot be read' -- --policy "$TMP/dangling"
  refused "N04 a policy that is a directory" 78 'regular file' -- --policy "$TMP"
  refused "N04 a policy that cannot be read" 78 'cannot be read' -- --policy /proc/self/mem
  refused "N04 a list that is not text" 78 AX_NET_ALLOW AX_NET_POLICY=gate AX_NET_ALLOW=$'10.0.0.2:80\xff'
  mkfifo "$TMP/fifo"
  printf 'mode = "none"\n' >"$TMP/mine.toml"
  chown 1000 "$TMP/mine.toml"
  refused "N04 a policy the agent owns" 78 'mine.toml.*chmod' -- --policy "$TMP/mine.toml"
  chown 0 "$TMP/mine.toml"
  chmod 666 "$TMP/mine.toml"
  refused "N04 a policy anybody can write" 78 'mine.toml.*read-only' AX_NET_POLICY="$TMP/mine.toml"
  chmod 644 "$TMP/mine.toml"
  mkdir -m 777 "$TMP/open"
  cp "$TMP/mine.toml" "$TMP/open"
  refused "N04 a policy in a directory anybody can write" 78 "can write in $TMP/open" -- --policy "$TMP/open/mine.toml"
  ln -s "$TMP/mine.toml" "$TMP/open/link"
  refused "N04 a link to a policy, where anybody can put another" 78 "can write in $TMP/open" -- --policy "$TMP/open/link"
  refused "N04 a policy in the workspace" 78 workspace AX_WORKSPACE="$TMP" -- --policy "$TMP/mine.toml"
  install -m 600 -o 1000 /dev/null "$TMP/mine.env"
  refused "an environment file the agent owns" 78 mine.env AX_NET_POLICY=none -- --env-file "$TMP/mine.env"
  mounted_policy
  refused "N04 a policy that is a pipe" 78 'regular file' -- --policy "$TMP/fifo"
  refused "N04 isolated with a network" 77 eth0 AX_NET_POLICY=isolated
  refused "unknown option" 78 polcy -- --polcy
  printf 'A=1\n' >"$TMP/env"
  chmod 644 "$TMP/env"
  refused "an environment file others can read" 78 0600 AX_NET_POLICY=none -- --env-file "$TMP/env"
  refused "a workspace in a system path" 78 AX_WORKSPACE AX_NET_POLICY=none AX_WORKSPACE=/etc/ws
  reset_rules
  swapped_policy
}

# As Kubernetes mounts a ConfigMap: links to links in a directory with mode 2777, read-only.
mounted_policy() {
  local volume=$TMP/volume
  mkdir -m 2777 "$volume" "$volume/..2026_10_05"
  printf 'mode = "none"\n' >"$volume/..2026_10_05/policy.toml"
  chown -R 0:1000 "$volume"
  chmod 664 "$volume/..2026_10_05/policy.toml"
  ln -s ..2026_10_05 "$volume/..data"
  ln -s ..data/policy.toml "$volume/policy.toml"
  refused "N04 a policy in a volume the agent can write" 78 "$volume" -- --policy "$volume/policy.toml"
  printf 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 99\nshift\nexec "$@"\n' >"$TMP/read-only"
  WRAP="bash $TMP/read-only $volume" run_enter -- --policy "$volume/policy.toml" -- true
  SEEN="exit $RC: $ERR"
  check "N04 a policy in a read-only volume, as a ConfigMap is" [ "$RC" = 0 ]
  WRAP="bash $TMP/read-only $volume" run_enter AX_NET_POLICY=external AX_WORKSPACE="$volume" -- -- true
  SEEN="exit $RC: $ERR"
  check "a read-only workspace: the remedy is a mount" eval "[ $RC = 0 ] && grep -q ': mount it writable.*workspace_unusable' '$TMP/err'"
  reset_rules
}

# The file is put in place of another while it is read: one of both holds, whole.
swapped_policy() {
  local turn wrong=""
  printf 'mode = "none"\n' >"$TMP/closed.toml"
  printf 'mode = "external"\nenforced_by = "the other file"\n' >"$TMP/left.toml"
  ln -sf closed.toml "$TMP/swapped"
  (while :; do for to in left closed; do ln -s $to.toml "$TMP/swap.$to" && mv -T "$TMP/swap.$to" "$TMP/swapped"; done; done) 2>/dev/null &
  local swapper=$!
  STARTED+=($swapper)
  for turn in $(seq 12); do
    reset_rules
    run_enter -- --policy "$TMP/swapped" -- bash -c 'echo $AX_NET_ENFORCED_BY'
    case $RC:$OUT in
      "0:none: packet rules"*) in_agent nft list table inet ax_egress >/dev/null 2>&1 || wrong="said none, no rules" ;;
      "0:external: the other file") in_agent nft list table inet ax_egress >/dev/null 2>&1 && wrong="said external, rules" ;;
      *) wrong="exit $RC: $OUT $ERR" ;;
    esac
  done
  kill $swapper 2>/dev/null
  wait $swapper 2>/dev/null
  SEEN=$wrong
  check "N04 a policy file that is swapped during the start: one of both, whole" [ -z "$wrong" ]
  reset_rules
}

# In a private mount namespace (ip netns exec makes one): another nft.
with_nft() { WRAP="bash $TMP/with-nft $1"; }

environments_that_do_not_start() {
  cat >"$TMP/with-nft" <<'EOF'
mount --bind "$1" /usr/sbin/nft || exit 99
shift
exec "$@"
EOF
  printf '#!/bin/sh\nexit 1\n' >"$TMP/nft-fails"
  printf '#!/bin/sh\nexit 0\n' >"$TMP/nft-nothing"
  printf '#!/bin/sh\necho $$ >%s\nsleep 30 & sleep 30\n' "$TMP/nft-group" >"$TMP/nft-hangs"
  printf '#!/bin/sh\nyes\n' >"$TMP/nft-floods"
  printf '#!/bin/sh\necho garbage\n' >"$TMP/nft-babbles"
  printf '#!/bin/sh\necho "{ \\"nftables\\": [ { \\"table\\""\n' >"$TMP/nft-breaks-off"
  printf '#!/bin/sh\n[ "$1" != -j ] || { echo "nft: invalid option -- j" >&2; exit 1; }\n' >"$TMP/nft-old"
  printf '#!/bin/sh\nkill -SEGV $$\n' >"$TMP/nft-crashes"
  printf 'no program\n' >"$TMP/nft-no-program"
  cp /usr/sbin/nft "$TMP/nft-real"
  printf '#!/bin/sh\nsleep 3\nexec %s "$@"\n' "$TMP/nft-real" >"$TMP/nft-slow"
  # Loads something else than it was given, and lists truly.
  printf '#!/bin/sh\ncase "$1" in -f) sed "s/policy drop/policy accept/;/refuse/d" | %s -f - ;; *) exec %s "$@" ;; esac\n' "$TMP/nft-real" "$TMP/nft-real" >"$TMP/nft-weak"
  # Loads nothing and lists what was asked for: only trying finds out.
  printf '#!/bin/sh\ncase "$1" in -f) cat >/dev/null ;; *) cat %s/listing ;; esac\n' "$TMP" >"$TMP/nft-lies"
  chmod 755 "$TMP"/nft-*
  reset_rules
  run_enter AX_NET_POLICY=none -- -- true
  in_agent nft -j list table inet ax_egress >"$TMP/listing"
  local stub
  for stub in fails:'nft ended' nothing:'reading them back' hangs:'did not end' floods:'more than' weak:'reading them back' lies:'was not refused' \
    babbles:'reading them back' breaks-off:'reading them back' old:'invalid option' crashes:signal no-program:nft slow:'did not end'; do
    reset_rules
    with_nft "$TMP/nft-${stub%%:*}"
    refused "N04 nft that ${stub%%:*}" 77 "${stub#*:}" AX_NET_POLICY=none
  done
  local group
  group=$(cat "$TMP/nft-group")
  wait_for "! alive $group"
  SEEN=$(ps -eo pgid=,stat=,args= | grep "^ *$group ")
  check "N04 nothing of a hanging nft is left" eval '[ -n "$group" ] && ! alive "$group"'
  cp "$TMP/nft-real" "$TMP/nft-mode"
  chmod 644 "$TMP/nft-mode"
  with_nft "$TMP/nft-mode"
  refused "N04 nft that may not be executed" 77 'Permission denied' AX_NET_POLICY=none
  with_nft /dev/null
  refused "N04 no nft" 77 nftables AX_NET_POLICY=none
  for lost in net_admin setpcap setuid setgid; do
    WRAP="setpriv --bounding-set -$lost --inh-caps -$lost"
    refused "N04 without $lost" 77 "${lost^^}" AX_NET_POLICY=none
  done
  WRAP="setpriv --reuid 1000 --regid 1000 --clear-groups"
  refused "N04 started as uid 1000 with a policy" 77 NET_ADMIN AX_NET_POLICY=none
  WRAP="setpriv --bounding-set -setuid"
  refused "root without SETUID never runs the payload" 77 SETUID AX_NET_POLICY=external
  WRAP=
  reset_rules
  # Asking the configured resolver for that one name is all that may be seen.
  WRAP="unshare -n"
  refused "N04 no loopback interface" 77 loopback AX_NET_POLICY=none
  WRAP=
  EXPECTED="arp or (udp port 53 and dst $PEER4) or (tcp port 53 and dst $PEER4)" \
    refused "N04 a name that does not resolve" 77 nowhere.test AX_NET_POLICY=allow AX_NET_ALLOW=nowhere.test:80
  reset_rules
}

# What whoever starts us may leave behind: a packet socket, which no packet rule sees; files and directories of the machine's;
# the end of children ignored.
what_a_parent_leaves() {
  cat >"$TMP/leaky" <<'EOF'
import os, signal, socket, sys
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)
packets.bind(("eth0", 0))
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
left = [packets.fileno(), raw.fileno(), os.open("/etc/shadow", os.O_RDONLY), os.open("/root", os.O_PATH)]
for number, place in zip(left, range(20, 24)):
    os.dup2(number, place, inheritable=True)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
EOF
  cat >"$TMP/left" <<'EOF'
import os, socket
print("left", *[number for number in range(20, 24) if os.path.islink(f"/proc/self/fd/{number}")])
try:
    socket.socket(fileno=20).send(b"\xff" * 6 + b"\x02" * 6 + b"\x88\xb5CANARY")
except OSError:
    pass
EOF
  reset_rules
  WRAP="/usr/bin/python3 $TMP/leaky"
  sniff_start
  run_enter AX_NET_POLICY=none -- -- bash -c "(exit 3); echo \$?; exec /usr/bin/python3 $TMP/left"
  sniff_stop "$NOISE"
  WRAP=
  SEEN="exit $RC, $PACKETS packets: $SHOWN $OUT $ERR"
  check "N09 what a parent left open is closed, and its packet socket sends nothing" eval "[ '$RC$PACKETS' = 00 ] && [[ '$OUT' == *left ]]"
  check "N04 started where the end of children is ignored, all is heard" eval "[[ '$OUT' == 3* ]]"
  reset_rules
}

old_flows() {
  reset_rules
  # A connection from before the rules must not carry on.
  serve TCP4-LISTEN:90,bind=1.2.3.4,fork,reuseaddr
  rm -f "$TMP/go"
  "${IN_AGENT[@]}" bash -c "exec 3<>/dev/tcp/1.2.3.4/90; while [ ! -e $TMP/go ]; do sleep 0.05; done; echo CANARY >&3" &
  local flow=$!
  STARTED+=($flow)
  wait_for '[ -n "$(in_agent ss -Hnt dst 1.2.3.4:90)" ]'
  run_enter AX_NET_POLICY=none -- -- true
  sniff_start
  touch "$TMP/go"
  wait_for '! kill -0 '$flow' 2>/dev/null'
  sleep 0.5
  sniff_stop
  SEEN="$RC $SHOWN"
  check "N09 a flow opened before the rules is cut" [ "$RC" = 0 -a "$PACKETS" = 0 ]
  kill $flow 2>/dev/null
}

inbound() {
  reset_rules
  "${IN_AGENT[@]}" env -i PATH="$PATH" AX_NET_POLICY=gate AX_NET_ALLOW=$PEER4:3128 "$BIN" enter -- \
    socat -T60 TCP4-LISTEN:7777,reuseaddr SYSTEM:'echo open' >/dev/null 2>&1 &
  STARTED+=($!)
  wait_for 'listens -t 7777 in_agent'
  SEEN=$(in_peer socat -T2 - TCP4:$AGENT4:7777,connect-timeout=2 2>&1)
  check "N09 inbound to a port the agent opened is refused" eval "! printf '%s' \"\$SEEN\" | grep -q open"
  SEEN=$(in_peer socat -T2 - TCP4:$AGENT4:7777,connect-timeout=2,sourceport=3128,bind=$PEER4 2>&1)
  check "N09 also from the allowed address and port" eval "! printf '%s' \"\$SEEN\" | grep -q open"
  # Nothing answers, not even with a refusal, and no router makes itself known.
  sniff_start
  in_peer ping -c1 -W1 $AGENT4 >/dev/null 2>&1
  in_peer ping -6 -c1 -W1 $AGENT6 >/dev/null 2>&1
  in_peer socat -T1 - TCP4:$AGENT4:9,connect-timeout=1 >/dev/null 2>&1 </dev/null
  in_peer bash -c "echo x >/dev/udp/$AGENT4/9" 2>/dev/null
  in_peer /usr/bin/python3 - <<'EOF'
import socket
with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as s:
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
    prefix = b"\x03\x04\x40\xc0" + b"\0\0\x0e\x10" * 2 + b"\0" * 4 + socket.inet_pton(socket.AF_INET6, "2001:db8:77::")
    s.sendto(b"\x86\0\0\0\x40\0\x07\x08" + b"\0" * 8 + prefix, ("ff02::1", 0, 0, socket.if_nametoindex("eth0")))
EOF
  sniff_stop arp
  SEEN="$PACKETS packets: $SHOWN"
  check "N09 pings, closed ports and router advertisements get no answer" [ "$PACKETS" = 0 ]
  SEEN=$(ip -n "$AGENT_NS" -6 addr show dev eth0 | grep 2001:db8:77)
  check "N01 a router advertisement after the start gives no address" [ -z "$SEEN" ]
}

reruns() {
  reset_rules
  in_agent nft -f - <<EOF
table inet ax_egress {
  chain output { type filter hook output priority 0; policy accept; }
  chain stray { type filter hook output priority -400; policy accept; }
}
EOF
  SEEN=$(in_agent nft list tables)
  check "control: the table is there" [ "$SEEN" = "table inet ax_egress" ]
  run_enter AX_NET_POLICY=none -- -- $ATTACK v4
  SEEN="exit $RC: $ERR $(grep SENT "$TMP/out")"
  check "N04 a table of the same name is replaced whole" eval "[ $RC = 0 ] && ! grep -q SENT '$TMP/out'"
  run_enter AX_NET_POLICY=gate AX_NET_ALLOW=$PEER4:3128 -- -- socat $PATIENT - TCP:$PEER4:3128
  SEEN="exit $RC: $OUT $ERR"
  check "a rerun with another policy" [ "$OUT" = greeting ]
  # Killed at any step: the network is as it was, or closed; never in between.
  local step tables
  for step in 0.002 0.005 0.01 0.02 0.03 0.05; do
    reset_rules
    "${IN_AGENT[@]}" env -i PATH="$PATH" AX_NET_POLICY=none "$BIN" enter -- sleep 3 >/dev/null 2>&1 &
    sleep $step
    kill -KILL $! 2>/dev/null
    wait $! 2>/dev/null
    sleep 0.1
    tables=$(in_agent nft -j list ruleset | jq '[.nftables[].rule? | select(.)] | length')
    SEEN="$tables rules after a kill at $step s"
    check "N04 killed at $step s: $tables rules, all or none" [ "$tables" = 0 -o "$tables" = 8 ]
  done
  reset_rules
  run_enter AX_NET_POLICY=none -- -- true
  check "N04 a run after that starts" [ "$RC" = 0 ]
}

tables_of_others() {
  # Rules that let everything out before and after ours, and a translation that sends what is allowed elsewhere.
  reset_rules
  in_agent nft -f - <<EOF
table inet permissive {
  chain first { type filter hook output priority -400; policy accept; accept; }
  chain last { type filter hook output priority 400; policy accept; accept; }
}
table ip ax_egress {
  chain output { type filter hook output priority -310; policy accept; accept; }
}
table ip platform {
  chain out { type nat hook output priority -100; ip daddr 1.2.3.4 tcp dport 80 dnat to $PEER4:81; }
}
EOF
  sniff_start
  run_enter AX_NET_POLICY=gate AX_NET_ALLOW=$PEER4:3128 -- -- bash -c "socat $PATIENT - TCP:$PEER4:3128; $ATTACK v4 v6"
  sniff_stop "$ALLOWED_TUPLE"
  SEEN="exit $RC, $PACKETS packets: $SHOWN $OUT $ERR"
  check "N04 tables of others open nothing" \
    eval "[ $RC = 0 -a $PACKETS = 0 ] && grep -q greeting '$TMP/out'"
  SEEN=$(in_agent nft list tables | paste -sd' ')
  check "and all of them are still there" eval "[[ '$SEEN' == *'inet permissive'* && '$SEEN' == *'ip ax_egress'* && '$SEEN' == *'ip platform'* ]]"
  reset_rules
  in_agent nft 'add table inet ax_egress { flags dormant; }'
  run_enter AX_NET_POLICY=none -- -- $ATTACK v4
  SEEN="exit $RC: $ERR $(grep SENT "$TMP/out")"
  check "N04 a table of our name that is switched off is replaced whole" eval "[ $RC = 0 ] && ! grep -q SENT '$TMP/out'"
  reset_rules
  run_enter AX_NET_POLICY=allow "AX_NET_ALLOW=$(seq -f "10.1.0.%g:80" -s, 255),$PEER4:3128" -- -- socat $PATIENT - TCP:$PEER4:3128
  SEEN="exit $RC: $OUT $ERR"
  check "as many destinations as there may be" [ "$OUT" = greeting ]
  reset_rules
}
