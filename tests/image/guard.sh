# What keeps commands from the host's socket (AX_UNIX_SOCKETS), and what must go on working under it: with the programs
# themselves, as an ordinary user, and under the engines' own seccomp profiles.

guard_tests() {
  need ip unshare setpriv jq python3
  doctor_on_sockets
  [ -x "$DEVHOST" ] || { skip guard "no ax-devhost at $DEVHOST"; return; }
  programs_under_the_guard
  under_a_profile
}

# sockets NAME STATE WORD NAME=value...: what doctor says of the layer.
sockets() {
  local name=$1 state=$2 word=$3
  shift 3
  SEEN=$(unshare -n setpriv --reuid 1000 --regid 1000 --clear-groups env -i "$@" "$BIN" doctor --json | jq -c '.layers[] | select(.name == "unix-sockets")')
  check "doctor, $name: unix-sockets is $state" eval "[[ \$SEEN == *'\"state\":\"$state\"'*'$word'* ]]"
}

doctor_on_sockets() {
  sockets "guard" enforced 'guard: ' AX_UNIX_SOCKETS=guard
  sockets "auto where guard works" enforced 'guard: '
  sockets "deny" enforced 'deny: ' AX_UNIX_SOCKETS=deny
  sockets "allow" absent allow AX_UNIX_SOCKETS=allow
  sockets "a misspelt setting" failed 'none of' AX_UNIX_SOCKETS=gaurd
}

# user_turn SETTING COMMAND...: a turn of a runner with uid 1000 and nothing but loopback; `said N` is what the Nth command printed.
user_turn() {
  local setting=$1
  shift
  rm -rf "$TMP/ws"
  mkdir -p "$TMP/ws/.ax"
  chown -R 1000:1000 "$TMP/ws"
  bash_calls "$@" >"$TMP/script.json"
  cat >"$TMP/as-user" <<END
#!/bin/bash
chown -R 1000:1000 "\$(dirname "\$(dirname "\$AX_IPC_SOCKET")")"
export AX_UNIX_SOCKETS=$setting PATH=/usr/local/bin:/usr/bin:/bin
exec unshare -n bash -c 'ip link set lo up; exec setpriv --reuid 1000 --regid 1000 --clear-groups "\$@"' _ "$BIN" "\$@"
END
  chmod 755 "$TMP/as-user"
  rm -f "$TMP/audit.jsonl"
  timeout 600 "$DEVHOST" run --workspace "$TMP/ws" --script "$TMP/script.json" --audit "$TMP/audit.jsonl" --verbose go -- "$TMP/as-user" --agent pi-coding-agent >"$TMP/out" 2>"$TMP/err" </dev/null
  RC=$?
}

# Ends with the errno's name, or with REACHED.
REACH='python3 -c "
import errno, os, socket
def reach(path):
    try:
        s = socket.socket(socket.AF_UNIX); s.connect(path); return \"REACHED\"
    except OSError as error: return errno.errorcode[error.errno]
def own():
    try:
        s = socket.socket(socket.AF_UNIX); s.bind(\"own.sock\"); s.listen(); return reach(\"own.sock\")
    except OSError as error: return errno.errorcode[error.errno]
print(\"host\", reach(os.environ[\"HOST_SOCKET\"]), \"own\", own())
"'

# What needs Unix sockets: an agent of keys, a pool of processes, a database, a browser.
programs_under_the_guard() {
  local names=() wanted=() commands=()
  program() { names+=("$1") wanted+=("$2") commands+=("$3"); }
  program "the host's socket is refused, one's own is not" '^host EACCES own REACHED ?$' "export HOST_SOCKET=\$(ls \"\${XDG_CACHE_HOME%/*/*}\"/*.sock | head -n1); $REACH"
  program "a forkserver pool" '^328350 ?$' 'printf "import multiprocessing as m\ndef f(x): return x*x\nif __name__==\"__main__\":\n with m.get_context(\"forkserver\").Pool(4) as p: print(sum(p.map(f,range(100))))\n" >p.py; python3 p.py'
  if have ssh-agent; then
    program "ssh-agent" '^\(ED25519\) ?$' 'eval "$(ssh-agent -a "$PWD/a.sock")" >/dev/null; ssh-keygen -q -t ed25519 -N "" -f k; ssh-add -q k; ssh-add -l | cut -d" " -f4; kill $SSH_AGENT_PID'
  else
    skip "guard: ssh-agent" "openssh-client is not installed"
  fi
  if ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
    program "Postgres over a Unix socket" '^42 42 42 ?$' 'set -e; B=$(ls -d /usr/lib/postgresql/*/bin | tail -n1); $B/initdb -D d -A trust -U u --no-sync >i.log 2>&1; $B/pg_ctl -D d -w -l log -o "-k $PWD -c listen_addresses= -c fsync=off" start >s.log 2>&1; for i in 1 2 3; do psql -h "$PWD" -U u -d postgres -Atc "select 6*7"; done; $B/pg_ctl -D d -m fast stop >/dev/null'
  else
    skip "guard: Postgres" "postgresql is not installed"
  fi
  if have chromium; then
    program "Chromium, headless" '42</body>' 'timeout 100 chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$PWD/c" --dump-dom "data:text/html,<body><script>document.write(6*7)</script></body>" 2>c.log || tail -n 5 c.log'
  else
    skip "guard: Chromium" "not installed"
  fi
  user_turn guard "${commands[@]}"
  all_said guard
}

# The engines' default profiles, on the root and on an ordinary user. Podman's allows pidfd_getfd to everybody; Docker's only
# with CAP_SYS_PTRACE, which is podman's without that name.
under_a_profile() {
  local podmans=/usr/share/containers/seccomp.json user profile mode direct
  have podman && [ -r $podmans ] || { skip "guard under an engine's profile" "podman or its seccomp.json is not installed"; return; }
  engine_up && image_up || { not_ok "guard under an engine's profile" "$(tail -n 5 "$TMP/build.log" 2>/dev/null)"; return; }
  jq 'del(.syscalls[].names[]? | select(. == "pidfd_getfd"))' $podmans >"$TMP/docker-like.json"
  for user in 0 1000; do
    # Root without capabilities is nothing the entrypoint lets through, so the runner is started without it.
    direct=$([ $user = 0 ] && echo "--entrypoint /usr/bin/node")
    for profile in $podmans "$TMP/docker-like.json"; do
      case $profile in *docker-like*) mode=deny ;; *) mode=guard ;; esac
      TURN_UID=$user turn "$(bash_calls "$REACH")" --network=none --memory 512m --cap-drop=ALL \
        --security-opt "seccomp=$profile" --user "$user:$user" -e HOST_SOCKET='$AX_IPC_SOCKET' -e AX_PASS_ENV=HOST_SOCKET $direct
      SEEN="exit $RC: $(grep -E '\| host |unix_sockets' "$TMP/err" || tail -n 3 "$TMP/err")"
      check "guard under ${profile##*/} as uid $user: auto takes $mode, and the host's socket is out of reach" eval \
        "[ $RC = 0 ] && grep -q '\"mode\":\"$mode\"' '$TMP/err' && grep -qE '\| host (EACCES own REACHED|EAFNOSUPPORT own EAFNOSUPPORT)' '$TMP/err'"
    done
  done
}
