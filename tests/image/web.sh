# The web proxy bridge with the clients agents use: a runner with nothing but loopback, a real forward proxy behind the
# host's socket, and an origin that is reached through it alone. The commands get exactly the environment of a turn.

ORIGIN=10.98.7.1
web_tests() {
  need ip openssl socat tinyproxy python3 curl wget git jq
  [ -x "$DEVHOST" ] || { skip web "no ax-devhost at $DEVHOST"; return; }
  web_up || { not_ok web "the origin or the proxy does not start: $(cat "$TMP/web/origin.log" "$TMP/web/openssl.log" 2>/dev/null | tail -n 3)"; return; }
  clients_through tinyproxy 3128
  if have squid; then clients_through squid 3129; else skip "squid" "not installed"; fi
  network_down
}

web_up() {
  local ns
  network_down
  for ns in "$AGENT_NS" "$PEER_NS"; do
    ip netns add "$ns" && ip -n "$ns" link set lo up || return 1
    mkdir -p "/etc/netns/$ns"
  done
  printf '127.0.0.1 localhost\n%s origin.test\n' $ORIGIN >"/etc/netns/$PEER_NS/hosts"
  : >"/etc/netns/$PEER_NS/resolv.conf"
  ip -n "$PEER_NS" addr add $ORIGIN/32 dev lo
  mkdir -p "$TMP/web/git" && chmod 755 "$TMP/web"
  install -m 644 "$HERE/clients.py" "$TMP/web/clients.py"
  (cd "$TMP/web" && openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=ax-web-ca &&
    openssl req -newkey rsa:2048 -nodes -keyout s.key -out s.csr -subj /CN=origin.test &&
    printf 'subjectAltName=DNS:origin.test' >ext &&
    openssl x509 -req -in s.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out s.pem) >"$TMP/web/openssl.log" 2>&1 || return 1
  git init -q --bare -b main "$TMP/web/git/repo.git" || return 1
  "${IN_PEER[@]}" /usr/bin/python3 "$HERE/origin.py" $ORIGIN "$TMP/web" >"$TMP/web/origin.out" 2>"$TMP/web/origin.log" &
  STARTED+=($!)
  printf 'Port 3128\nListen 127.0.0.1\nTimeout 600\nMaxClients 400\nDisableViaHeader Yes\n' >"$TMP/web/tinyproxy.conf"
  "${IN_PEER[@]}" tinyproxy -d -c "$TMP/web/tinyproxy.conf" >"$TMP/web/tinyproxy.log" 2>&1 &
  STARTED+=($!)
  if have squid; then
    mkdir -p "$TMP/web/squid" && chmod 777 "$TMP/web/squid"
    # With its usual buffer squid 5.7 often sees the end of a client that is still sending fast, also without our bridge.
    cat >"$TMP/web/squid.conf" <<END
client_request_buffer_max_size 256 MB
http_port 127.0.0.1:3129
acl all_ports port 1-65535
http_access allow all_ports
cache deny all
cache_mem 8 MB
access_log none
cache_log $TMP/web/squid/cache.log
pid_filename $TMP/web/squid/pid
coredump_dir $TMP/web/squid
hosts_file /etc/hosts
shutdown_lifetime 0 seconds
visible_hostname proxy.test
pinger_enable off
END
    "${IN_PEER[@]}" squid -N -f "$TMP/web/squid.conf" >"$TMP/web/squid.log" 2>&1 &
    STARTED+=($!)
  fi
  wait_for 'grep -q ready "$TMP/web/origin.out" && answers 3128 && { ! have squid || answers 3129; }'
}
answers() { in_peer curl -s --noproxy '*' -o /dev/null "http://127.0.0.1:$1/"; }

# web_turn PORT COMMAND...: one turn whose model runs the commands one after another. OUT holds their results, a line each.
web_turn() {
  local port=$1 calls
  shift
  rm -rf "$TMP/ws"
  mkdir -p "$TMP/ws/.ax"
  calls=$(jq -cn '$ARGS.positional | map({tools: [{name: "bash", args: {command: ., timeout_ms: 280000}}]}) + [{text: ["done"]}]' --args "$@")
  printf '%s' "$calls" >"$TMP/script.json"
  jq -n --rawfile ca "$TMP/web/ca.pem" '{message: "go", sessionId: "http:dm:ax:u:1", requestId: "r-1", agentId: "ax", sandboxType: "docker",
    caCert: $ca, credentialEnv: {PROBE_KEY: "ax-cred:00112233445566778899aabbccddeeff"}}' >"$TMP/payload.json"
  cat >"$TMP/wired" <<END
#!/bin/bash
ip netns exec $PEER_NS socat -t600 UNIX-LISTEN:"\$AX_WEB_PROXY_SOCKET",fork,backlog=512,mode=666 TCP:127.0.0.1:$port &
echo \$! >$TMP/web/relay.pid
echo \$\$ >$TMP/web/runner.pid
export PATH=/usr/local/bin:/usr/bin:/bin
until [ -S "\$AX_WEB_PROXY_SOCKET" ]; do sleep 0.05; done
exec ip netns exec $AGENT_NS "$BIN" "\$@"
END
  chmod 755 "$TMP/wired"
  rm -f "$TMP/audit.jsonl" "$TMP/web/runner.pid"
  watch_runner &
  local watcher=$!
  timeout 900 "$DEVHOST" run --workspace "$TMP/ws" --script "$TMP/script.json" --payload "$TMP/payload.json" --audit "$TMP/audit.jsonl" \
    -- "$TMP/wired" --agent pi-coding-agent >"$TMP/out" 2>"$TMP/err" </dev/null
  RC=$?
  kill "$(cat "$TMP/web/relay.pid")" 2>/dev/null
  kill "$watcher" 2>/dev/null
  wait "$watcher" 2>/dev/null
}
# What the Nth command of the turn printed, on one line.
said() { jq -rs --argjson nth "$1" '[.[] | select(.event == "request" and .action == "sandbox_result")][$nth].request.output // "nothing"' "$TMP/audit.jsonl" | paste -sd' '; }

# The turn has ended well, and each of the caller's commands (`names`) has printed what it should (`wanted`).
all_said() {
  local prefix=$1 at
  SEEN="exit $RC: $(tail -n 3 "$TMP/err")"
  check "$prefix: the turn ends well" eval "[ $RC = 0 ] && grep -q ' 0 violations' '$TMP/err'"
  for at in "${!names[@]}"; do
    SEEN=$(said "$at")
    check "$prefix: ${names[at]}" eval "[[ \$SEEN =~ \${wanted[at]} ]]"
  done
}

# A command that says `at NAME` goes on when the runner's descriptors and memory have been written to $TMP/web/at-NAME. At
# `after` that is when the descriptors are back to what they were at `before`, or after a minute; from `upload` on the peak
# is that of the upload.
AT='at() { touch ".at-$1"; until [ -e ".go-$1" ]; do sleep 0.05; done; };'
watch_runner() {
  local mark name pid turn
  until [ -s "$TMP/web/runner.pid" ]; do sleep 0.1; done
  pid=$(cat "$TMP/web/runner.pid")
  while sleep 0.05; do
    for mark in "$TMP"/ws/.at-*; do
      name=${mark##*.at-}
      [ -e "$mark" ] && [ ! -e "$TMP/ws/.go-$name" ] || continue
      if [ "$name" = after ]; then
        for turn in $(seq 600); do
          [ "$(descriptors_of "$pid")" -le "$(cut -d' ' -f1 "$TMP/web/at-before")" ] && break
          sleep 0.1
        done
      fi
      [ "$name" != upload ] || echo 5 2>/dev/null >"/proc/$pid/clear_refs"
      echo "$(descriptors_of "$pid") $(awk '/^VmRSS/ {rss = $2} /^VmHWM/ {peak = $2} END {print rss, peak}' "/proc/$pid/status")" >"$TMP/web/at-$name"
      touch "$TMP/ws/.go-$name"
    done
  done
}
descriptors_of() { ls "/proc/$1/fd" 2>/dev/null | wc -l; }

# One turn for all clients. CLIENTS: name, what its output must match, command.
clients_through() {
  local proxy=$1 port=$2 names=() wanted=() commands=()
  client() { [[ $1 =~ ${WEB_ONLY:-.} ]] || return 0; names+=("$1") wanted+=("$2") commands+=("$3"); }
  client "curl, plain" '^hello from outside $' 'curl -sS http://origin.test/hello'
  client "curl, CONNECT and the turn's authority" '^hello from outside $' 'curl -sS https://origin.test/hello'
  client "curl trusts it by the turn's variables alone" 'certificate' 'env -u CURL_CA_BUNDLE -u SSL_CERT_FILE curl -sS https://origin.test/hello'
  client "wget" '^hello from outside hello from outside $' 'wget -qO- http://origin.test/hello https://origin.test/hello'
  client "a credential's placeholder in a header" '^arrived$' '[ "$(curl -sS -H "X-Key: $PROBE_KEY" https://origin.test/echo-header)" = "$PROBE_KEY" ] && echo -n arrived'
  client "python: urllib" 'hello from outside' "/usr/bin/python3 -c 'import urllib.request as r; print(r.urlopen(\"https://origin.test/hello\").read())'"
  client "git clone, commit, push over https" 'refs/heads/main' 'set -e; git clone -q https://origin.test/git/repo.git r 2>/dev/null; cd r; git checkout -q -B main; date >f; git add f; git -c user.name=a -c user.email=b commit -q -m m; git push -q origin main; git ls-remote origin'
  client "pip install" '^pip ' '/usr/bin/python3 -m pip install -q --no-cache-dir --disable-pip-version-check --root-user-action ignore --target p -i https://origin.test/simple axprobe && PYTHONPATH=p /usr/bin/python3 -c "import axprobe; print(axprobe.said)"'
  client "events, curl -N, plain" 'event 1;event 2;event 3;event 4;event 5;' 'curl -sSN http://origin.test/events | while read -r a b; do [ "$a" = data: ] || continue; printf "%s;" "$b"; curl -sS http://origin.test/ack; done'
  client "events, curl -N, CONNECT" 'event 1;event 2;event 3;event 4;event 5;' 'curl -sSN https://origin.test/events | while read -r a b; do [ "$a" = data: ] || continue; printf "%s;" "$b"; curl -sS https://origin.test/ack; done'
  client "events, python" 'event 1;event 2;event 3;event 4;event 5;' "/usr/bin/python3 $TMP/web/clients.py events https://origin.test/events"
  client "1000 tunnels one after another, 200 at once" '^failed 0' "$AT at before; /usr/bin/python3 $TMP/web/clients.py tunnels origin.test:7 1000 200; at after"
  client "200 MB up, CONNECT" "^209715200 [0-9a-f]{64}" "$AT head -c 209715200 /dev/zero >big; at upload; curl -sS -T big https://origin.test/upload; at uploaded"
  client "200 MB up, plain" "^209715200 [0-9a-f]{64}" 'curl -sS -T big http://origin.test/upload; rm big'
  if /usr/bin/python3 -c 'import websockets' 2>/dev/null; then
    client "WebSocket over CONNECT" '^first same later 4321 as asked $' "/usr/bin/python3 $TMP/web/clients.py websocket ws://origin.test:8080/"
    client "WebSocket over CONNECT and TLS" '^first same later 4321 as asked $' "/usr/bin/python3 $TMP/web/clients.py websocket wss://origin.test:8443/"
  else
    skip "$proxy: WebSocket" "no python3-websockets"
  fi
  if have npm; then
    client "npm install, with an npmrc of the image's" '^npm ?$' 'echo cafile=/etc/ssl/certs/ca-certificates.crt >.npmrc; npm install --silent --fetch-retries 0 --no-audit --no-fund --registry https://origin.test/ axprobe >n.log 2>&1 || cat n.log; node -p "require(\"axprobe\")"'
  else
    skip "$proxy: npm" "not installed"
  fi
  client "loopback is direct" '^direct $' '/usr/bin/python3 -m http.server 9911 --bind 127.0.0.1 >/dev/null 2>&1 & until curl -sS -o /dev/null http://localhost:9911/ 2>/dev/null; do sleep 0.1; done; echo direct; kill %1'
  rm -f "$TMP"/web/at-*
  web_turn "$port" "${commands[@]}"
  all_said "P $proxy"
  local before= after= upload= uploaded=
  read -r before _ 2>/dev/null <"$TMP/web/at-before"
  read -r after _ 2>/dev/null <"$TMP/web/at-after"
  SEEN="$before before, $after after"
  check "P01 $proxy: descriptors are back after the tunnels ($SEEN)" [ "${after:-9999}" -le "${before:-0}" ]
  read -r _ upload _ 2>/dev/null <"$TMP/web/at-upload"
  read -r _ _ uploaded 2>/dev/null <"$TMP/web/at-uploaded"
  SEEN="$upload KiB resident before, $uploaded KiB at the peak"
  check "P01 $proxy: an upload of 200 MiB takes no memory ($SEEN)" [ "${uploaded:-999999999}" -lt $((${upload:-0} + 16384)) ]
  SEEN=$(jq -rs '[.[] | select(.event == "stderr") | .text] | map(select(contains("web_proxy_bridge"))) | last // "no line"' "$TMP/audit.jsonl")
  check "P $proxy: the log counts what passed, and nothing is open" eval "[[ \$SEEN == *'\"open\":0'* ]]"
}
