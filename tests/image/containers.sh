# The image under podman and runc: built, inspected, and run as a host runs it.
#
# No registry is needed: the base is made with debootstrap. Everything of podman's is in a storage of this run.

CACHE=$AX_IMAGE_STORE
IMAGE=localhost/ax-image-test/agent:latest
BASE_IMAGE=localhost/ax-image-test/base:trixie
MIRROR=${AX_TEST_MIRROR:-http://deb.debian.org/debian}
MIRROR_SECURITY=${AX_TEST_MIRROR_SECURITY:-http://deb.debian.org/debian-security}
DEVHOST=${AX_DEVHOST_BIN:-$ROOT/target/debug/ax-devhost}
# The flags of the docker provider (PROTOCOL §1.7), without names and mounts.
PROVIDER="--network=none --memory 256m --cpus 1 --pids-limit 256 --cap-drop=ALL --security-opt no-new-privileges --read-only --tmpfs /tmp:rw,noexec,nosuid,size=64m"

container_tests() {
  need podman runc conmon debootstrap jq socat
  engine_up && image_up || { not_ok "containers" "$(tail -n 5 "$TMP/build.log" 2>/dev/null)"; return; }
  if [ -n "${ONLY:-}" ]; then $ONLY; return; fi
  image_contents
  provider_turn
  host_vectors
  dropped_in_a_container
  closed_in_a_container
  refused_in_a_container
  stops
  hard_places
  derived_node
  empty_root
  pod
  listening
  figures
}

# A configuration of our own, since the machine's limits and cgroup version are not what podman expects.
engine_up() {
  mkdir -p "$CACHE/storage" "$CACHE/run"
  cat >"$CACHE/containers.conf" <<EOF
[containers]
default_ulimits = ["nofile=16384:16384", "nproc=16384:16384"]
[engine]
# The state and the locks of this run alone: others of this machine's would be seen, and set free, at the first start.
tmp_dir = "$CACHE/run/libpod"
lock_type = "file"
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "file"
[network]
network_backend = "netavark"
EOF
  printf '[storage]\ndriver = "overlay"\ngraphroot = "%s/storage"\nrunroot = "%s/run"\n' "$CACHE" "$CACHE" >"$CACHE/storage.conf"
  export CONTAINERS_CONF=$CACHE/containers.conf CONTAINERS_STORAGE_CONF=$CACHE/storage.conf
  # What a build that is cut off leaves is here too.
  mkdir -p "$CACHE/tmp"
  export TMPDIR=$CACHE/tmp
  podman info >/dev/null 2>"$TMP/build.log"
}

# One part makes the image, the others wait for it.
image_up() {
  local made=$CACHE/image-made code
  exec 8>"$CACHE/image.lock"
  flock 8
  [ -e "$made" ] || { base_up && build $IMAGE && touch "$made"; }
  code=$?
  exec 8>&-
  return $code
}

base_up() {
  local kept=${AX_IMAGE_CACHE:-$CACHE}/base.tar
  if [ ! -e "$kept" ]; then
    mkdir -p "${kept%/*}"
    again bootstrap >"$TMP/build.log" 2>&1 || return
    tar -C "$CACHE/trixie" -cf "$kept.$$" . && mv "$kept.$$" "$kept" || return
    rm -rf "$CACHE/trixie"
  fi
  podman import "$kept" $BASE_IMAGE >"$TMP/build.log" 2>&1
}

bootstrap() {
  rm -rf "$CACHE/trixie"
  debootstrap --variant=minbase trixie "$CACHE/trixie" "$MIRROR"
}

# again COMMAND...: what asks a mirror may fail for a moment, so it is tried three times.
again() { "$@" || { sleep 5; "$@"; } || { sleep 30; "$@"; }; }

# build TAG: what a person does, with a binary that is brought along, in a network where there is nothing but a
# proxy that writes down each request.
build() {
  local context=$TMP/context architecture
  architecture=$(dpkg --print-architecture)
  mkdir -p "$context/dist/$architecture"
  cp -r "$ROOT/image" "$ROOT/Cargo.toml" "$ROOT/.containerignore" "$context/"
  cp "$BIN" "$context/dist/$architecture/ax-runner"
  proxied_network_up || return
  again env ENGINE=podman BASE=$BASE_IMAGE BINARY=prebuilt MIRROR=$MIRROR MIRROR_SECURITY=$MIRROR_SECURITY SOURCE_DATE_EPOCH=1700000000 \
    "$context/image/build" "$1" --isolation=oci --runtime=runc --network="ns:/run/netns/$BUILD_NS" \
    --no-cache --build-arg http_proxy=http://127.0.0.1:3128 --build-arg REVISION=test >"$TMP/build.log" 2>&1
}

BUILD_NS=axt$$b
proxied_network_up() {
  [ ! -S "$TMP/proxy.sock" ] || return 0
  ip netns add "$BUILD_NS" && ip -n "$BUILD_NS" link set lo up || return
  mkdir -p "$CACHE/kept"
  background /usr/bin/python3 "$HERE/proxy.py" "$TMP/proxy.sock" "$CACHE/fetched" "$CACHE/kept" 8>&-
  background ip netns exec "$BUILD_NS" socat -t600 TCP4-LISTEN:3128,bind=127.0.0.1,fork,reuseaddr UNIX-CONNECT:"$TMP/proxy.sock" 8>&-
  wait_for '[ -S "$TMP/proxy.sock" ] && listens -t 3128 ip netns exec "$BUILD_NS"'
}

# boxed FLAGS... -- WORDS: runs the image; RC, OUT, ERR, MS.
boxed() {
  local flags=() start
  while [ "$1" != -- ]; do flags+=("$1"); shift; done
  shift
  start=$(now_ms)
  timeout 300 podman run --rm --label "ax-image-test=$$" "${flags[@]}" $IMAGE "$@" >"$TMP/out" 2>"$TMP/err" </dev/null
  RC=$?
  MS=$(($(now_ms) - start))
  OUT=$(cat "$TMP/out") ERR=$(cat "$TMP/err")
  SEEN="exit $RC: $OUT $ERR"
}

image_contents() {
  boxed $PROVIDER -- bash -c 'find / -xdev -perm /6000 ! -type l 2>/dev/null; true'
  check "N06 no set-user-id or set-group-id bit in the image" [ "$RC" = 0 -a -z "$OUT" ]
  local mounted
  mounted=$(podman image mount $IMAGE)
  SEEN=$(getcap -r "$mounted" 2>/dev/null)
  check "N06 no file capabilities in the image" [ -z "$SEEN" ]
  podman image unmount $IMAGE >/dev/null
  boxed $PROVIDER -- bash -c 'for t in bash git git-lfs curl wget jq rg tree less zip unzip make patch file ps python3 nft; do command -v $t >/dev/null || PATH=$PATH:/usr/sbin command -v $t >/dev/null || echo "$t missing"; done; locale charmap; stat -c %U:%G /workspace'
  check "the tools are there, UTF-8, /workspace is the agent's" [ "$OUT" = $'UTF-8\nagent:agent' ]
  boxed $PROVIDER -- bash -c 'cd /opt/ax/bin && grep -m1 ax-runner /etc/ax/manifest.txt | sha256sum -c --status && grep -q ^base /etc/ax/manifest.txt && grep -q "^bash " /etc/ax/manifest.txt && head -c 27 /etc/ax/ca.crt'
  check "the manifest names base, packages and the binary's hash; the CA path exists" [ "$OUT" = "-----BEGIN CERTIFICATE-----" ]
  SEEN=$(podman image inspect $IMAGE | jq -c '.[0] | [.Config.User, .Config.Entrypoint[0], .Config.WorkingDir, .Labels["org.opencontainers.image.revision"]]')
  check "user, absolute entrypoint, directory and labels" [ "$SEEN" = '["1000:1000","/opt/ax/bin/ax-runner","/opt/ax","test"]' ]
  mkdir -p "$TMP/share"
  chmod 777 "$TMP/share"
  boxed $PROVIDER -v "$TMP/share:/home/user/.agents:ro" -- bash -c 'echo $AX_AGENTS_DIR'
  check "a read-only .agents is announced" [ "$OUT" = /home/user/.agents ]
  boxed $PROVIDER -e AX_AGENTS_DIR=/x -v "$TMP/share:/home/user/.agents:rw" -- bash -c 'echo $AX_AGENTS_DIR'
  check "a writable one is not, and the log says why" eval "[ -z \"\$OUT\" ] && grep -q agents_dir_writable '$TMP/err'"
  mkdir -p "$TMP/shut"
  chmod 555 "$TMP/shut"
  chown 1000:1000 "$TMP/shut"
  boxed $PROVIDER -v "$TMP/shut:/home/user/.agents:rw" -- bash -c 'echo $AX_AGENTS_DIR'
  check "nor is one that its owner has only shut" eval "[ -z \"\$OUT\" ] && grep -q agents_dir_writable '$TMP/err'"
  boxed $PROVIDER -- bash -c 'echo $PATH'
  check "/workspace/bin is in no PATH of the image's own" eval "! printf '%s' \"\$OUT\" | grep -q workspace"
}

# A whole turn with the provider's own flags, the development host on the other end of the socket.
provider_turn() {
  [ -x "$DEVHOST" ] || { skip "a turn with the docker flags" "no ax-devhost at $DEVHOST"; return; }
  AX_DOCKER_IMAGE=$IMAGE timeout 300 "$DEVHOST" run --provider podman >"$TMP/out" 2>"$TMP/err" </dev/null
  RC=$?
  SEEN="exit $RC: $(tail -n 3 "$TMP/err")"
  check "a whole turn with the docker provider's flags" eval "[ $RC = 0 ] && grep -q ' 0 violations' '$TMP/err'"
}

# turn NAME SCRIPT-JSON ENGINE-FLAGS...: a scripted turn with our own flags; the audit is in $AUDIT.
turn() {
  local script=$1 uid=${TURN_UID:-1000}
  shift
  rm -rf "$TMP/ws"
  mkdir -p "$TMP/ws/.ax"
  chown -R "$uid:$uid" "$TMP/ws"
  printf '%s' "$script" >"$TMP/script.json"
  AUDIT=$TMP/audit.jsonl
  rm -f "$AUDIT"
  cat >"$TMP/engine" <<EOF
#!/bin/bash
ipc=\$(dirname "\$AX_IPC_SOCKET")
chmod 711 "\$ipc"; chmod 666 "\$ipc"/*.sock
export CONTAINERS_CONF=$CONTAINERS_CONF CONTAINERS_STORAGE_CONF=$CONTAINERS_STORAGE_CONF PATH=$PATH
if [ -n "${WEB_PROXY:-}" ]; then
  socat UNIX-LISTEN:"\$ipc/web.sock",fork,mode=666 SYSTEM:'read -r request; echo proxied' >/dev/null 2>&1 &
  (tail -f /dev/null --pid=\$\$; kill \$!) >/dev/null 2>&1 &
  until [ -S "\$ipc/web.sock" ]; do sleep 0.05; done
fi
exec podman ${ENGINE_FLAGS:-} run --rm -i --label ax-image-test=$$ $* -v "\$AX_WORKSPACE:/workspace:rw" -v "\$ipc:\$ipc:rw" -w /workspace \\
  -e AX_IPC_SOCKET="\$AX_IPC_SOCKET" -e AX_WORKSPACE=/workspace -e AX_HOME=/tmp/.ax-agent -e PATH=/workspace/bin:/usr/bin:/bin \\
  ${WEB_PROXY:+-e AX_WEB_PROXY_SOCKET="\$ipc/web.sock"} \\
  $IMAGE /opt/ax/dist/agent/runner.js --agent pi-coding-agent
EOF
  chmod 755 "$TMP/engine"
  timeout 300 "$DEVHOST" run --workspace "$TMP/ws" --script "$TMP/script.json" --audit "$AUDIT" --verbose go -- "$TMP/engine" >"$TMP/out" 2>"$TMP/err" </dev/null
  RC=$?
  SEEN="exit $RC: $(grep -v '^  | {' "$TMP/err" | tail -n 25)"
}
# bash_calls COMMAND...: a script that runs each command in a round of its own.
bash_calls() {
  local command json='[]'
  for command in "$@"; do json=$(jq -c --arg c "$command" '. + [{tools:[{name:"bash",args:{command:$c}}]}]' <<<"$json"); done
  jq -c '. + [{text:["done"]}]' <<<"$json"
}

host_vectors() {
  local vector
  for vector in "/opt/ax/dist/agent/runner.js --agent pi-coding-agent" "node /opt/ax/dist/agent/runner.js --agent pi-coding-agent"; do
    boxed $PROVIDER -- $vector
    check "the vector '$vector' is the runner" eval "[ $RC = 1 ] && grep -q missing_args '$TMP/err'"
    boxed $PROVIDER --entrypoint "${vector%% *}" -- ${vector#* }
    check "the same as a pod's command" eval "[ $RC = 1 ] && grep -q missing_args '$TMP/err'"
  done
  boxed $PROVIDER --entrypoint node -- dist/agent/git-sidecar.js
  check "the sidecar's vector is the sidecar" eval "[ $RC != 0 ] && [ $RC != 127 ] && ! grep -q Node.js '$TMP/err'"
  boxed $PROVIDER --entrypoint node -- app.js
  check "another script without a Node says so" eval "[ $RC = 127 ] && grep -q Node.js '$TMP/err'"
}

LOOK='grep -E "^(Uid|Groups|Cap...|NoNewPrivs|Seccomp):" /proc/self/status | tr -s "\t\n " " "'
EMPTY=0000000000000000

dropped_in_a_container() {
  local flags name
  network_up || { not_ok network "the namespaces could not be made"; return; }
  while IFS='|' read -r name flags; do
    boxed $flags --network "ns:/run/netns/$AGENT_NS" -e AX_NET_POLICY=none -- bash -c "$LOOK"
    check "N06 $name: uid 1000, all sets empty, no_new_privs, filtered" eval \
      "printf '%s' \"\$OUT\" | grep -q 'Uid: 1000 1000 1000 1000 Groups: CapInh: $EMPTY CapPrm: $EMPTY CapEff: $EMPTY CapBnd: $EMPTY CapAmb: $EMPTY NoNewPrivs: 1 Seccomp: 2'"
    reset_rules
  done <<EOF
root with four capabilities|--user 0 --read-only --cap-drop ALL --cap-add NET_ADMIN,SETUID,SETGID,SETPCAP
root with every capability|--user 0 --cap-add ALL
EOF
  boxed --user 0 --cap-add ALL --network "ns:/run/netns/$AGENT_NS" -e AX_NET_POLICY=none -- bash -c \
    'export PATH=$PATH:/usr/sbin:/sbin; for try in "nft list ruleset" "ip link" "mount -t tmpfs x /mnt" "chown 0 /workspace" "su -c id" "python3 -c \"import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)\"" "python3 -c \"import os; os.setuid(0)\""; do eval "$try" >/dev/null 2>&1 && echo "POSSIBLE $try"; done; true'
  check "N06 nothing privileged is possible in there" [ "$RC" = 0 -a -z "$OUT" ]
  reset_rules
  # exec does not pass through the entrypoint: the image's user holds, and what the engine gave the container.
  podman run -d --rm --label "ax-image-test=$$" --name "axt$$-exec" $PROVIDER $IMAGE sleep 600 >/dev/null
  SEEN=$(podman exec "axt$$-exec" bash -c "$LOOK")
  check "N06 exec as the default user holds nothing" eval "printf '%s' \"\$SEEN\" | grep -q 'Uid: 1000 .*CapEff: $EMPTY CapBnd: $EMPTY'"
  SEEN=$(podman exec -u 0 "axt$$-exec" bash -c "$LOOK; nft list ruleset 2>&1")
  check "N06 exec as root holds no capability either" eval "printf '%s' \"\$SEEN\" | grep -q 'CapEff: $EMPTY'"
  podman rm -f -t 0 "axt$$-exec" >/dev/null 2>&1
  podman run -d --rm --label "ax-image-test=$$" --name "axt$$-priv" --privileged --network=none --user 0 --entrypoint sleep $IMAGE 600 >/dev/null
  SEEN=$(podman exec -u 0 "axt$$-priv" /opt/ax/bin/ax-runner enter -- echo RAN 2>&1; echo "exit $?")
  check "N04 an exec into a privileged container is refused" eval "[[ '$SEEN' == *privileged*'exit 77' ]]"
  podman rm -f -t 0 "axt$$-priv" >/dev/null 2>&1
}

closed_in_a_container() {
  install -m 644 "$HERE/attack.py" "$TMP/attack.py"
  serve TCP4-LISTEN:3128,bind=$PEER4,fork,reuseaddr
  sniff_start
  boxed --user 0 --read-only --cap-drop ALL --cap-add NET_ADMIN,SETUID,SETGID,SETPCAP --network "ns:/run/netns/$AGENT_NS" \
    -v "$TMP/attack.py:/attack.py:ro" -e AX_NET_POLICY=gate -e AX_NET_ALLOW=$PEER4:3128 -- \
    bash -c "exec 3<>/dev/tcp/$PEER4/3128 && cat <&3; python3 /attack.py $PEER4 $PEER6 v4 v6 dns other"
  sniff_stop "(arp) or (tcp and host $PEER4 and port 3128)"
  SEEN="exit $RC, $PACKETS packets: $SHOWN; $(head -c 300 "$TMP/out") $ERR"
  check "N01 N02 N09 the gate in a container: the proxy answers, nothing else leaves" eval "[ $PACKETS = 0 ] && grep -q greeting '$TMP/out'"
  reset_rules
}

# What must end with CODE before anything runs.
box_refused() {
  local name=$1 code=$2 word=$3
  shift 3
  sniff_start
  boxed --network "ns:/run/netns/$AGENT_NS" "$@" -- bash -c 'echo RAN'
  sniff_stop "$NOISE"
  printf '      %-44s exit %s, %s packets, %s ms: %s\n' "$name" "$RC" "$PACKETS" "$MS" "$(tail -n1 "$TMP/err")"
  SEEN="exit $RC, $PACKETS packets: $SHOWN $OUT $ERR"
  check "$name" eval "[ $RC = $code -a $PACKETS = 0 -a -z \"\$OUT\" ] && grep -q '$word' '$TMP/err'"
}

refused_in_a_container() {
  # A fresh network: the old one's kernel may still look for neighbours and close connections of what ran before.
  network_up
  local four="--user 0 --cap-drop ALL --cap-add NET_ADMIN,SETUID,SETGID,SETPCAP"
  box_refused "N04 container without NET_ADMIN" 77 NET_ADMIN --user 0 --cap-drop ALL --cap-add SETUID,SETGID,SETPCAP -e AX_NET_POLICY=none
  box_refused "N06 container with NET_ADMIN alone" 77 SETPCAP --user 0 --cap-drop ALL --cap-add NET_ADMIN -e AX_NET_POLICY=none
  box_refused "N04 container as its own user with a policy" 77 NET_ADMIN -e AX_NET_POLICY=none
  box_refused "N04 privileged container" 77 privileged --user 0 --privileged -e AX_NET_POLICY=none
  ! has_init || box_refused "N04 privileged container with an init" 77 privileged --init --user 0 --privileged -e AX_NET_POLICY=none
  box_refused "N04 container without nft" 77 nftables $four -v /dev/null:/usr/sbin/nft -e AX_NET_POLICY=none
  box_refused "root without capabilities never runs the payload" 77 SETUID --user 0 --cap-drop ALL -e AX_NET_POLICY=external
  box_refused "N04 isolated, and there is a network" 77 eth0 -e AX_NET_POLICY=isolated
  network_down
}

has_init() {
  have catatonit || have tini || have dumb-init || [ -x /usr/libexec/podman/catatonit ] || { skip "a container with --init" "there is no init"; return 1; }
}

stops() {
  local wait init start ms code
  for wait in 0 0.05 0.2 0.5; do
    for init in "" --init; do
      [ -z "$init" ] || has_init || continue
      # Standard input stays open, so the runner waits for its payload.
      podman run -d -i --label "ax-image-test=$$" --name "axt$$-stop" $init $PROVIDER -e AX_WORKSPACE=/workspace -e AX_IPC_LISTEN=1 \
        -e AX_IPC_SOCKET=/tmp/bridge.sock $IMAGE /opt/ax/dist/agent/runner.js >/dev/null
      wait_for "hears $(podman inspect -f '{{.State.Pid}}' "axt$$-stop")"
      sleep $wait
      start=$(now_ms)
      podman stop -t 60 "axt$$-stop" >/dev/null 2>&1
      ms=$(($(now_ms) - start)) code=$(podman inspect -f '{{.State.ExitCode}}' "axt$$-stop")
      SEEN="$ms ms, exit $code; $(podman logs "axt$$-stop" 2>&1 | tail -n 2)"
      # Had it not been heard, the engine would have killed it after the minute: 137.
      check "N10 stop after $wait s ${init:-without --init} ($ms ms)" [ "$code" = 143 ]
      podman rm -f -t 0 "axt$$-stop" >/dev/null 2>&1
    done
  done
}

hard_places() {
  [ -x "$DEVHOST" ] || { skip "B16 and B24" "no ax-devhost"; return; }
  local calls
  calls=$(bash_calls 'cat <<X
heredoc
X' 'mktemp && echo made' "echo $(printf 'x%.0s' $(seq 1000)) >/dev/null; printf big" 'whoami; id -u' 'git init -q r && cd r && git -c user.name=a -c user.email=b commit -q --allow-empty -m x && echo committed' 'cd ~ && touch f && pwd')
  turn "$calls" $PROVIDER
  check "B16 read-only root, noexec tmp" eval "[ $RC = 0 ] && grep -q ' 0 failed' '$TMP/err' && grep -q committed '$TMP/err' && grep -q heredoc '$TMP/err'"
  TURN_UID=12345 turn "$calls" $PROVIDER --user 12345:12345
  check "B24 an unknown uid: commit and home work" eval "[ $RC = 0 ] && grep -q committed '$TMP/err' && grep -q '| /workspace' '$TMP/err'"
  turn "$(bash_calls 'cat <<X
heredoc
X' 'echo ok')" --network=none --cap-drop=ALL --read-only --read-only-tmpfs=false
  check "B16 read-only root and no writable tmp: heredocs fail loudly or work, the turn goes on" [ "$RC" = 0 ]
  turn "$(bash_calls 'for f in /proc/net/tcp /proc/net/tcp6 /proc/net/udp /proc/net/udp6; do awk "NR>1 && (\$4==\"0A\" || FILENAME ~ /udp/)" $f; done; grep -c @ /proc/net/unix; true')" $PROVIDER
  SEEN="$(grep -A8 'proc/net/tcp' "$TMP/err")"
  check "N15 nothing of ours listens without a web proxy" eval "! printf '%s' \"\$SEEN\" | grep -qE '0100007F:'"
  WEB_PROXY=yes turn "$(bash_calls "$(cat "$HERE/listeners.sh")")" $PROVIDER
  SEEN="exit $RC: $(grep -A6 'listener' "$TMP/err" | head -n 12)"
  check "N15 with a web proxy one listener, on loopback, and no abstract socket" grep -q '| 1 listener, 0 elsewhere, 0 abstract' "$TMP/err"
  check "N15 its port cannot be taken over" eval "[ \$(grep -c '| refused to bind' '$TMP/err') = 6 ] && ! grep -q '| TAKEN' '$TMP/err'"
  check "N15 what it gives without credentials is the host's to give" grep -q '| says proxied' "$TMP/err"
}

# A derived image with a Node of its own, before and behind ours in PATH.
derived_node() {
  printf '#!/bin/sh\necho "real node: $*"\n' >"$TMP/real-node"
  chmod 755 "$TMP/real-node"
  boxed $PROVIDER -v "$TMP/real-node:/usr/local/bin/node:ro" --entrypoint node -- app.js x
  check "a derived image's Node gets other scripts" [ "$OUT" = "real node: app.js x" ]
  boxed $PROVIDER -v "$TMP/real-node:/opt/node/node:ro" -e PATH=/usr/bin:/opt/node --entrypoint node -- app.js x
  check "also where ours is found first" [ "$OUT" = "real node: app.js x" ]
  boxed $PROVIDER -v "$TMP/real-node:/opt/node/node:ro" -e PATH=/usr/bin:/opt/node --entrypoint node -- /opt/ax/dist/agent/runner.js
  check "and our scripts stay ours" eval "[ $RC = 1 ] && grep -q missing_args '$TMP/err'"
  local node
  node=$(command -v node) || { skip "a real Node given our script" "no node on this machine to lend"; return; }
  node=$(readlink -f "$node")
  boxed $PROVIDER -v "$node:/usr/local/bin/node:ro" --entrypoint node -- --version
  [ "$RC" = 0 ] || { skip "a real Node given our script" "this machine's node does not run in the image"; return; }
  boxed $PROVIDER -v "$node:/usr/local/bin/node:ro" --entrypoint node -- /opt/ax/dist/agent/runner.js --agent pi-coding-agent
  check "a real Node hands our script over" eval "[ $RC = 1 ] && grep -q missing_args '$TMP/err'"
  boxed $PROVIDER -v "$node:/usr/local/bin/node:ro" --entrypoint node -- dist/agent/git-sidecar.js
  check "and the sidecar under its own name, though it is a link" eval "[ $RC != 0 ] && ! grep -qE 'missing_args|Node.js' '$TMP/err' && grep -qi sidecar '$TMP/err'"
  boxed $PROVIDER -v "$node:/usr/local/bin/node:ro" --entrypoint node -- -e 'console.log(6 * 7)'
  check "and is itself for all else" [ "$OUT" = 42 ]
}

# N13: nothing but the binary.
empty_root() {
  if readelf -lW "$BIN" 2>/dev/null | grep -q INTERP || ! have readelf; then
    skip "N13 the binary alone in a container" "the program under test is not static (or readelf is missing)"
    return
  fi
  local root=$TMP/empty
  mkdir -p "$root"
  cp "$BIN" "$root/ax-runner"
  tar -C "$root" -cf - ax-runner | podman import - "localhost/ax-image-test/empty:latest" >/dev/null 2>&1
  for words in "/ax-runner --version" "/ax-runner enter -- /ax-runner --version" "/ax-runner enter --print"; do
    timeout 300 podman run --rm --label "ax-image-test=$$" $PROVIDER --user 1000:1000 localhost/ax-image-test/empty:latest $words >"$TMP/out" 2>"$TMP/err" </dev/null
    RC=$?
    SEEN="exit $RC: $(cat "$TMP/out" "$TMP/err")"
    check "N13 the binary alone in a container: $words" [ "$RC" = 0 ]
  done
}

# The pod of image/k8s with a turn in it: the development host speaks HTTP, the pod is given its address and token.
pod() {
  [ -x "$DEVHOST" ] || { skip "the pod" "no ax-devhost"; return; }
  cat >"$TMP/play" <<EOF
#!/bin/bash
export CONTAINERS_CONF=$CONTAINERS_CONF CONTAINERS_STORAGE_CONF=$CONTAINERS_STORAGE_CONF PATH=$PATH
sed "s|image: .*|image: $IMAGE|; s|ax-agent-example|axt$$|; s|value: \"http://ax-host.*|value: \"\$AX_HOST_URL\" }|; /ax-web-proxy/d
  /name: AX_IPC_TOKEN/{N;s|.*|        - { name: AX_IPC_TOKEN, value: \"\$AX_IPC_TOKEN\" }|}; s|^spec:|spec:\n  hostNetwork: true|
  s|emptyDir: { sizeLimit: 2Gi }|hostPath: { path: $TMP/ws }|" \
  "$ROOT/image/k8s/pod.yaml" >"$TMP/pod.yaml"
podman kube play --log-driver k8s-file "$TMP/pod.yaml" >&2 || exit 99
podman inspect "axt$$-sandbox" >"$TMP/pod.json"
podman wait "axt$$-sandbox" >/dev/null
podman logs "axt$$-sandbox" >&2
# The pod's own process holds standard error open, which the development host waits for.
podman kube down "$TMP/pod.yaml" >/dev/null 2>&1
EOF
  chmod 755 "$TMP/play"
  bash_calls 'id -u; touch /x 2>&1; ls /var/run/secrets 2>&1; echo in the pod' >"$TMP/script.json"
  # Prepared as the host prepares one: the runner waits half a minute for that.
  mkdir -p "$TMP/ws/.ax"
  chown -R 1000:1000 "$TMP/ws"
  timeout 300 "$DEVHOST" run --transport http --workspace "$TMP/ws" --script "$TMP/script.json" --verbose go -- "$TMP/play" >"$TMP/out" 2>"$TMP/err" </dev/null
  RC=$?
  SEEN="exit $RC: $(grep -v '^  | {' "$TMP/err" | tail -n 25)"
  check "the pod plays, with a whole turn over HTTP in it" eval "[ $RC = 0 ] && grep -q '| in the pod' '$TMP/err' && grep -q 'Read-only file system' '$TMP/err'"
  SEEN=$(jq -c '.[0] | [.Config.User, .HostConfig.ReadonlyRootfs, (.EffectiveCaps // []), (.BoundingCaps // [])]' "$TMP/pod.json")
  check "the pod's container is uid 1000, read-only, without capabilities" [ "$SEEN" = '["1000:1000",true,[],[]]' ]
}

# The reverse bridge: the runner listens inside, a relay publishes the socket as Apple's runtime does.
listening() {
  [ -x "$DEVHOST" ] || { skip "listen mode" "no ax-devhost"; return; }
  mkdir -p "$TMP/bridge" "$TMP/ws"
  chown 1000:1000 "$TMP/bridge" "$TMP/ws"
  cat >"$TMP/listener" <<EOF
#!/bin/bash
export CONTAINERS_CONF=$CONTAINERS_CONF CONTAINERS_STORAGE_CONF=$CONTAINERS_STORAGE_CONF PATH=$PATH
socat UNIX-LISTEN:"\$AX_IPC_SOCKET",unlink-early UNIX-CONNECT:$TMP/bridge/in.sock,retry=1200,interval=0.1 &
exec podman run --rm -i --label ax-image-test=$$ --network=none --memory 256m -v $TMP/ws:/workspace:rw -v $TMP/bridge:$TMP/bridge:rw \\
  -w /workspace -e AX_IPC_SOCKET=$TMP/bridge/in.sock -e AX_IPC_LISTEN=1 -e AX_WORKSPACE=/workspace -e AX_HOME=/tmp/.ax-agent \\
  $IMAGE /opt/ax/dist/agent/runner.js --agent pi-coding-agent
EOF
  chmod 755 "$TMP/listener"
  printf '%s' "$(bash_calls 'echo over the bridge')" >"$TMP/script.json"
  timeout 300 "$DEVHOST" run --transport listen --workspace "$TMP/ws" --script "$TMP/script.json" --verbose go -- "$TMP/listener" >"$TMP/out" 2>"$TMP/err" </dev/null
  RC=$?
  SEEN="exit $RC: $(grep -v '^  | {' "$TMP/err" | tail -n 12)"
  check "listen mode: a turn over a published socket" eval "[ $RC = 0 ] && grep -q 'over the bridge' '$TMP/err'"
}

# For people, not for passing: a table of two things each, measured turn about in one run, and their ratio. With
# AX_WRITE_FIGURES=1 it takes the place of the one in image/README.md.
figures() {
  local base image
  base=$(podman image inspect -f '{{.Size}}' $BASE_IMAGE) image=$(podman image inspect -f '{{.Size}}' $IMAGE)
  network_up || { not_ok network "the namespaces could not be made"; return; }
  cat >"$TMP/timing" <<'EOF'
took() { local start=${EPOCHREALTIME/[.,]/}; "${@:2}" >/dev/null 2>&1; echo "$1 $((${EPOCHREALTIME/[.,]/} - start))"; }
three_runs() { nft -f "$RULES"; nft -j list table inet ax_egress; nft -j list table inet ax_egress; }
for turn in $(seq 31); do
  took bare env -i /bin/true
  took external env -i AX_NET_POLICY=external "$BIN" enter -- /bin/true
  nft flush ruleset
  took none env -i AX_NET_POLICY=none "$BIN" enter -- /bin/true
  nft flush ruleset
  took nft three_runs
done
EOF
  env -i AX_NET_POLICY=none "$BIN" enter --print >"$TMP/rules"
  in_agent env RULES="$TMP/rules" BIN="$BIN" bash "$TMP/timing" >"$TMP/times"
  network_down
  median() { sed -n "s/^$1 //p" "$TMP/times" | sort -n | sed -n 16p; }
  row() { printf '| %s | %s | %s | %s | %s |\n' "$1" "$2" "$3" "$4" "$(awk -v a="$5" -v b="$6" 'BEGIN { printf "%.2f", a / b }')"; }
  mib() { awk -v b="$1" 'BEGIN { printf "%.0f MiB", b / 1048576 }'; }
  ms() { awk -v us="$(median "$1")" 'BEGIN { printf "%.1f ms", us / 1000 }'; }
  {
    echo '| measured | figure | beside it | its figure | ratio |'
    echo '|---|--:|---|--:|--:|'
    row "size of the image" "$(mib "$image")" "its base" "$(mib "$base")" "$image" "$base"
    row "of it the binary" "$(mib "$(stat -c %s "$BIN")")" "what is added to the base" "$(mib $((image - base)))" "$(stat -c %s "$BIN")" $((image - base))
    row '`enter` with the mode `external`' "$(ms external)" 'the command alone' "$(ms bare)" "$(median external)" "$(median bare)"
    row '`enter` with the mode `none`' "$(ms none)" 'the three runs of `nft` alone' "$(ms nft)" "$(median none)" "$(median nft)"
  } >"$TMP/figures"
  sed 's/^/      /' "$TMP/figures"
  [ -z "${AX_WRITE_FIGURES:-}" ] || sed -i -e "/^<!-- figures -->/,/^<!-- end -->/{//!d}" -e "/^<!-- figures -->/r $TMP/figures" "$ROOT/image/README.md"
}
