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
# hears PID: has it blocked SIGTERM, or a handler for it? Before, the kernel keeps a PID 1 from hearing anything.
hears() {
  local key value
  while read -r key value; do
    case $key in SigBlk: | SigCgt:) [ $((0x$value & 0x4000)) = 0 ] || return 0 ;; esac
  done 2>/dev/null <"/proc/$1/status"
  return 1
}
# alive GROUP: is there a process of the group that is not only waiting for its parent?
alive() { ps -eo pgid=,stat= | awk -v group="$1" '$1 == group && $2 !~ /^Z/ { found = 1 } END { exit !found }'; }
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
# A kernel may be without it.
has_ipv6() { [ -d /proc/sys/net/ipv6 ]; }
# Milliseconds of a clock that nobody sets.
now_ms() { local up rest; read -r up rest </proc/uptime; echo "$((10#${up/./}))0"; }
# A minute is how long a machine may be busy. What hangs takes longer, and is told so by it alone.
wait_for() { # CONDITION
  local end=$(($(now_ms) + 60000))
  until eval "$1"; do
    [ "$(now_ms)" -lt $end ] || { echo "      waited in vain for: $1"; return 1; }
    sleep 0.02
  done
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
    # Neither does the machine's own setting hold here, nor says the kernel unasked who is there. Group reports it must
    # make, and repeats them after a second; here at once, so that they are over when packets are counted.
    ip netns exec "$ns" sysctl -qew net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0 \
      net.ipv6.conf.all.router_solicitations=0 net.ipv6.conf.default.router_solicitations=0 \
      net.ipv6.conf.default.accept_dad=0 net.ipv4.ping_group_range='0 2147483647' \
      net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 \
      net.ipv6.conf.default.mldv1_unsolicited_report_interval=10 net.ipv6.conf.default.mldv2_unsolicited_report_interval=10 \
      net.ipv4.conf.default.igmpv2_unsolicited_report_interval=10 net.ipv4.conf.default.igmpv3_unsolicited_report_interval=10
    ip -n "$ns" link set lo up
  done
  ip -n "$AGENT_NS" link add eth0 type veth peer name eth0 netns "$PEER_NS" || return 1
  for ns in "$AGENT_NS" "$PEER_NS"; do
    # Five seconds after a neighbour was last used the kernel asks whether it is still there: a packet no program sent.
    ip netns exec "$ns" sysctl -qew net.ipv4.neigh.eth0.delay_first_probe_time=3600 net.ipv6.neigh.eth0.delay_first_probe_time=3600
    ip -n "$ns" link set eth0 up
  done
  ip -n "$AGENT_NS" addr add $AGENT4/24 dev eth0
  ip -n "$PEER_NS" addr add $PEER4/24 dev eth0
  # What is not the allowed proxy: a gateway, a sibling, a public resolver, all answering at the peer.
  for extra in 10.99.0.3 8.8.8.8 1.2.3.4 192.0.2.1; do ip -n "$PEER_NS" addr add $extra/32 dev eth0; done
  ip -n "$AGENT_NS" route add default via $PEER4
  if has_ipv6; then
    ip -n "$AGENT_NS" addr add $AGENT6/64 dev eth0 nodad
    for extra in $PEER6/64 2001:db8::1/128 2606:4700::1111/128; do ip -n "$PEER_NS" addr add $extra dev eth0 nodad; done
    ip -n "$AGENT_NS" -6 route add default via $PEER6
  fi
  sniff_start && sniff_quiet && sniff_stop
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
# In the background these must be commands, not functions, or the pid we keep is that of a shell around them.
IN_AGENT=(ip netns exec "$AGENT_NS") IN_PEER=(ip netns exec "$PEER_NS")

# listens KIND PORT NETNS-COMMAND...: is there a socket (-t TCP, -u UDP) at the port?
listens() { [ -n "$("${@:3}" ss -Hnl "$1" "sport = :$2" 2>/dev/null)" ]; }

# A service at the peer; it greets and hangs up. Returns when it is there.
serve() {
  local kind=-t port=${1#*LISTEN:} address=${1#*bind=}
  [[ $1 != UDP* ]] || kind=-u
  background "${IN_PEER[@]}" socat "$1" SYSTEM:'echo greeting'
  wait_for "listens $kind '${port%%,*} and src ${address%%,*}' in_peer"
}
# How a client waits for the greeting, however late it comes.
PATIENT="-t60 -T60"

SNIFFED=0
sniff_start() {
  PCAP=$TMP/pcap.$((SNIFFED += 1))
  "${IN_PEER[@]}" tcpdump -i eth0 -Q in --immediate-mode -U -s0 -w "$PCAP" >/dev/null 2>"$PCAP.log" &
  SNIFFER=$!
  wait_for 'grep -qs "listening on" "$PCAP.log"'
}
# A frame that no packet rule sees, after all that was sent: when the sniffer has it, it has the rest too.
MARK="ether proto 0x88b6"
sniffed() { tcpdump -nn -r "$PCAP" "$@" 2>/dev/null; }
sniff_mark() {
  local before
  sleep 0.1 # what another processor has in hand
  before=$(sniffed "$MARK" | grep -c .)
  printf '\xff\xff\xff\xff\xff\xff\x02\0\0\0\0\1\x88\xb6%046d' 0 | in_agent socat -u - INTERFACE:eth0
  wait_for "[ \$(sniffed '$MARK' | grep -c .) -gt $before ]"
}
# Until the kernel has said all it has to say by itself.
sniff_quiet() {
  local before
  wait_for 'sniff_mark; before=$(sniffed "not ($MARK)" | wc -l); sleep 0.4; sniff_mark; [ "$(sniffed "not ($MARK)" | wc -l)" = "$before" ]'
}
# Ends the sniffer; $PACKETS is what came from the agent besides $1 (a tcpdump expression), $PCAP the file.
sniff_stop() {
  sniff_mark || { PACKETS=999 SHOWN="the sniffer does not see its mark: $(cat "$PCAP.log")"; return 1; }
  kill -TERM "$SNIFFER" 2>/dev/null
  wait "$SNIFFER" 2>/dev/null
  SHOWN=$(sniffed "not ($MARK${1:+ or $1})")
  PACKETS=$(printf '%s' "$SHOWN" | grep -c .) || true
}

# run_enter [NAME=value...] -- WORDS: runs `enter` in the agent's namespace; sets RC, OUT, ERR, MS.
run_enter() {
  local vars=() start
  while [ "$1" != -- ]; do vars+=("$1"); shift; done
  shift
  start=$(now_ms)
  in_agent env -i PATH="$PATH" "${vars[@]}" ${WRAP:-} "$BIN" enter "$@" \
    >"$TMP/out" 2>"$TMP/err" </dev/null
  RC=$?
  MS=$(($(now_ms) - start))
  OUT=$(cat "$TMP/out") ERR=$(cat "$TMP/err")
}
reset_rules() { in_agent nft flush ruleset; }
