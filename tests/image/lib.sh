# Shared parts of the image tests: counting, skipping, and a network of two namespaces with a sniffer.
# Everything is made under one temporary directory and two namespaces with a name of this process, and removed at the end.

set -u
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
PASSED=0 FAILED=0 SKIPPED=0
TMP=$AX_IMAGE_TMP
AGENT_NS=axt$$a PEER_NS=axt$$p
# The agent's kernel answers a neighbour that asks for it, before the rules are loaded or beside them.
NOISE="(arp[6:2] = 2) or (icmp6 and ip6[40] = 136)"
AGENT4=10.99.0.1 PEER4=10.99.0.2 AGENT6=fd00:99::1 PEER6=fd00:99::2
STARTED=()

ok() { PASSED=$((PASSED + 1)); printf 'ok    %s\n' "$1"; }
not_ok() { FAILED=$((FAILED + 1)); printf 'FAIL  %s: %s\n' "$1" "$2"; }
skip() { SKIPPED=$((SKIPPED + 1)); printf 'SKIP %s: %s\n' "$1" "$2"; }
# check NAME CONDITION-COMMAND... ; what was seen is in $SEEN
check() {
  local name=$1
  shift
  if "$@"; then ok "$name"; else not_ok "$name" "${SEEN:-$*}"; fi
}
# The last line of a part, for whoever adds up.
count_up() { echo "counted $PASSED $FAILED $SKIPPED"; }
have() { command -v "$1" >/dev/null 2>&1; }
need() {
  local tool
  for tool in "$@"; do
    have "$tool" || { echo "tests/image: $tool is missing; install the packages listed in tests/image/packages.txt" >&2; exit 2; }
  done
}

# The program under test, where any uid can execute it.
STATIC=$ROOT/target/$(uname -m)-unknown-linux-gnu/release/ax-runner
[ -x "$STATIC" ] || STATIC=$ROOT/target/debug/ax-runner
AX_RUNNER_BIN=${AX_RUNNER_BIN:-$STATIC}
prepare_binary() {
  [ -x "$AX_RUNNER_BIN" ] || { echo "tests/image: no program at $AX_RUNNER_BIN; build it or set AX_RUNNER_BIN" >&2; exit 2; }
  BIN=$TMP/ax-runner
  cp "$AX_RUNNER_BIN" "$BIN"
  chmod 755 "$BIN"
}

background() { "$@" & STARTED+=($!); }

MAIN=$$
cleanup() {
  local pid
  [ "$BASHPID" = "$MAIN" ] || return # a subshell that was killed
  for pid in "${STARTED[@]:-}"; do [ -n "$pid" ] && kill "$pid" 2>/dev/null; done
  network_down
  rmdir "/run/ax-doctor-$$" 2>/dev/null
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# --- the network ------------------------------------------------------------------------------------------------------

network_up() {
  local ns
  network_down # of an earlier part
  ip netns add "$AGENT_NS" && ip netns add "$PEER_NS" || return 1
  for ns in "$AGENT_NS" "$PEER_NS"; do
    mkdir -p "/etc/netns/$ns"
    printf 'nameserver %s\n' "$PEER4" >"/etc/netns/$ns/resolv.conf"
    printf '127.0.0.1 localhost\n%s known.test\n%s twice.test\n%s twice.test\n' "$PEER4" "$PEER4" "$PEER4" >"/etc/netns/$ns/hosts"
    ip netns exec "$ns" sysctl -qw net.ipv6.conf.all.router_solicitations=0 net.ipv6.conf.default.router_solicitations=0 \
      net.ipv6.conf.default.accept_dad=0 net.ipv4.ping_group_range='0 2147483647'
    ip -n "$ns" link set lo up
  done
  ip -n "$AGENT_NS" link add eth0 type veth peer name eth0 netns "$PEER_NS" || return 1
  for ns in "$AGENT_NS" "$PEER_NS"; do
    # Five seconds after a neighbour was last used the kernel asks whether it is still there: a packet no program sent.
    ip netns exec "$ns" sysctl -qw net.ipv4.neigh.eth0.delay_first_probe_time=3600 net.ipv6.neigh.eth0.delay_first_probe_time=3600
    ip -n "$ns" link set eth0 up
  done
  ip -n "$AGENT_NS" addr add $AGENT4/24 dev eth0
  ip -n "$AGENT_NS" addr add $AGENT6/64 dev eth0 nodad
  ip -n "$PEER_NS" addr add $PEER4/24 dev eth0
  ip -n "$PEER_NS" addr add $PEER6/64 dev eth0 nodad
  # What is not the allowed proxy: a gateway, a sibling, a public resolver, all answering at the peer.
  for extra in 10.99.0.3 8.8.8.8 1.2.3.4 192.0.2.1; do ip -n "$PEER_NS" addr add $extra/32 dev eth0; done
  for extra in 2001:db8::1 2606:4700::1111; do ip -n "$PEER_NS" addr add $extra/128 dev eth0 nodad; done
  ip -n "$AGENT_NS" route add default via $PEER4
  ip -n "$AGENT_NS" -6 route add default via $PEER6
  sleep 2 # the kernel's own group reports after an address is added
}

network_down() {
  local ns
  for ns in "$AGENT_NS" "$PEER_NS"; do
    ip netns del "$ns" 2>/dev/null
    rm -rf "/etc/netns/$ns"
  done
}

in_agent() { ip netns exec "$AGENT_NS" "$@"; }
in_peer() { ip netns exec "$PEER_NS" "$@"; }
wait_for() { # CONDITION: until it holds, ten seconds at most
  local turn
  for turn in $(seq 500); do eval "$1" && return; sleep 0.02; done
  return 1
}
# In the background these must be commands, not functions, or the pid we keep is that of a shell around them.
IN_AGENT=(ip netns exec "$AGENT_NS") IN_PEER=(ip netns exec "$PEER_NS")

# A TCP service at the peer; it greets and hangs up.
serve() { background "${IN_PEER[@]}" socat "$1" SYSTEM:'echo greeting'; }

sniff_start() {
  PCAP=$TMP/pcap.$RANDOM
  "${IN_PEER[@]}" tcpdump -i eth0 -Q in --immediate-mode -U -s0 -w "$PCAP" >/dev/null 2>"$PCAP.log" &
  SNIFFER=$!
  local turn
  for turn in $(seq 100); do grep -qs 'listening on' "$PCAP.log" && break; sleep 0.02; done
}
# Ends the sniffer; $PACKETS is what came from the agent besides $1 (a tcpdump expression), $PCAP the file.
sniff_stop() {
  sleep 0.3
  kill -TERM "$SNIFFER" 2>/dev/null
  wait "$SNIFFER" 2>/dev/null
  local allowed=${1:-}
  SHOWN=$(tcpdump -nn -r "$PCAP" ${allowed:+"not ($allowed)"} 2>/dev/null)
  PACKETS=$(printf '%s' "$SHOWN" | grep -c .)
}

# run_enter [NAME=value...] -- WORDS: runs `enter` in the agent's namespace; sets RC, OUT, ERR, MS.
run_enter() {
  local vars=() start
  while [ "$1" != -- ]; do vars+=("$1"); shift; done
  shift
  start=$(date +%s%N)
  in_agent env -i PATH="$PATH" "${vars[@]}" ${WRAP:-} "$BIN" enter "$@" \
    >"$TMP/out" 2>"$TMP/err" </dev/null
  RC=$?
  MS=$((($(date +%s%N) - start) / 1000000))
  OUT=$(cat "$TMP/out") ERR=$(cat "$TMP/err")
}
reset_rules() { in_agent nft flush ruleset; }
