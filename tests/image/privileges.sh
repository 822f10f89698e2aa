# N06 for the entrypoint and what it starts, in network namespaces of their own.

privilege_tests() {
  need unshare setpriv capsh
  everything_is_dropped "as root with everything" ""
  everything_is_dropped "as root with four capabilities" "capsh --drop=$(all_but cap_net_admin cap_setuid cap_setgid cap_setpcap) --"
  root_by_request
  home_and_environment
}

# The flag whose name says insecure keeps the user and nothing else; no variable does the same.
root_by_request() {
  echo "ip link set lo up; AX_NET_POLICY=none exec $BIN enter --insecure-keep-root -- bash $TMP/look" >"$TMP/go"
  unshare -n bash "$TMP/go" >"$TMP/out" 2>"$TMP/err" </dev/null
  SEEN="$(grep -E '^(Uid|Cap...|NoNewPrivs):' "$TMP/out" | tr -s '\t\n ' ' ') $(cat "$TMP/err")"
  check "--insecure-keep-root: root without any capability" eval \
    "[[ '$SEEN' == *'Uid: 0 0 0 0'* && '$SEEN' == *'CapPrm: 0000000000000000 CapEff: 0000000000000000 CapBnd: 0000000000000000'* && '$SEEN' == *'NoNewPrivs: 1'* ]]"
  echo "ip link set lo up; AX_INSECURE_KEEP_ROOT=1 AX_NET_POLICY=none exec $BIN enter -- id -u" >"$TMP/go"
  unshare -n bash "$TMP/go" >"$TMP/out" 2>"$TMP/err" </dev/null
  SEEN=$(cat "$TMP/out" "$TMP/err")
  check "without it nothing runs as root" [ "$(cat "$TMP/out")" = 1000 ]
}

# Capability names except the given ones, as a list for capsh.
all_but() {
  local list
  list=$(capsh --print | sed -n 's/^Bounding set =//p' | tr ',' '\n')
  for keep in "$@"; do list=$(printf '%s\n' "$list" | grep -vx "$keep"); done
  printf '%s' "$list" | paste -sd,
}

everything_is_dropped() {
  local name=$1 wrap=$2 field value
  cat >"$TMP/look" <<'EOF'
cat /proc/self/status
for try in "nft list ruleset" "ip route replace default dev lo" "chown 0 /tmp" "mount -t tmpfs none /mnt" "su -c true" "setpriv --reuid 0 true"; do
  if $try >/dev/null 2>&1; then echo "POSSIBLE $try"; fi
done
EOF
  chmod 644 "$TMP/look"
  echo "ip link set lo up; AX_NET_POLICY=none exec $BIN enter -- bash $TMP/look" >"$TMP/go"
  unshare -n ${wrap:-bash} "$TMP/go" >"$TMP/out" 2>"$TMP/err" </dev/null
  SEEN=$(cat "$TMP/err")
  for field in CapInh CapPrm CapEff CapBnd CapAmb; do
    value=$(sed -n "s/^$field:\s*//p" "$TMP/out")
    SEEN="$field is $value; $(cat "$TMP/err")"
    check "N06 $name: $field is empty" [ "$value" = 0000000000000000 ]
  done
  SEEN=$(grep -E '^(Uid|Gid|Groups|NoNewPrivs|Seccomp):' "$TMP/out")
  check "N06 $name: uid and gid 1000, no groups, no_new_privs, filtered" eval \
    "printf '%s' \"\$SEEN\" | tr -s '\t\n ' ' ' | grep -q 'Uid: 1000 1000 1000 1000 Gid: 1000 1000 1000 1000 Groups: NoNewPrivs: 1 Seccomp: 2'"
  SEEN=$(grep POSSIBLE "$TMP/out")
  check "N06 $name: nothing privileged is possible" [ -z "$SEEN" ]
}

home_and_environment() {
  mkdir -p "$TMP/seed/.config" "$TMP/ws"
  echo one >"$TMP/seed/.config/tool"
  chmod -R a+rX "$TMP/seed"
  chown 1000:1000 "$TMP/ws"
  printf 'mode = "none"\nhome_seed = "%s"\nenv_files = ["%s"]\n' "$TMP/seed" "$TMP/secret" >"$TMP/policy.toml"
  printf 'TOKEN=hunter2\n' >"$TMP/secret"
  chmod 600 "$TMP/secret"
  # A home of its own for uid 1000, in a private mount namespace.
  cat >"$TMP/homely" <<EOF
ip link set lo up
printf 'root:x:0:0::/root:/bin/sh\nagent:x:1000:1000::$TMP/ws:/bin/sh\n' >$TMP/passwd
mount --bind $TMP/passwd /etc/passwd
exec $BIN enter --policy $TMP/policy.toml -- bash -c 'echo \$TOKEN; cat ~/.config/tool; pwd; echo \$HOME; echo mine >~/.config/tool'
EOF
  unshare -n -m env AX_WORKSPACE="$TMP/ws" bash "$TMP/homely" >"$TMP/out" 2>"$TMP/err" </dev/null
  SEEN="$(paste -sd' ' "$TMP/out") $(cat "$TMP/err")"
  check "environment file, seeded home and working directory" [ "$(paste -sd' ' "$TMP/out")" = "hunter2 one $TMP/ws $TMP/ws" ]
  check "the secret is in no message" eval "! grep -q hunter2 '$TMP/err'"
  SEEN=$(stat -c '%u %a' "$TMP/ws/.config/tool")
  check "a seeded file is the agent's alone" [ "$SEEN" = "1000 600" ]
  echo two >"$TMP/seed/.config/tool"
  unshare -n -m env AX_WORKSPACE="$TMP/ws" bash "$TMP/homely" >"$TMP/out" 2>"$TMP/err" </dev/null
  SEEN="$(paste -sd' ' "$TMP/out") $(cat "$TMP/err")"
  check "an edited file is kept and named" eval "grep -q mine '$TMP/out' && grep -q '\"kept\":\[\".config/tool\"\]' '$TMP/err'"
  attacked_home
}

# A home the agent has left traps in, one that is full, and one that is read-only. The start goes on, and says what it met.
attacked_home() {
  local home=$TMP/ws name seen
  printf 'canary\n' >"$TMP/outside"
  chmod 644 "$TMP/outside"
  homed() { # NAME SETUP: WHAT the seeding said is in SEEN
    rm -rf "$home/.config" "$home/.local"
    sed "s|^exec .*|$2\nexec $BIN enter --policy $TMP/policy.toml -- bash -c 'echo started; cat ~/.config/tool'|" "$TMP/homely" >"$TMP/trapped"
    timeout 120 unshare -n -m env AX_WORKSPACE="$home" bash "$TMP/trapped" >"$TMP/out" 2>"$TMP/err" </dev/null
    RC=$?
    seen=$(grep -E 'home_(not_)?seeded' "$TMP/err")
    SEEN="exit $RC: $(paste -sd' ' "$TMP/out") $seen"
    check "the start goes on with a home that $1" grep -q started "$TMP/out"
    check "nothing outside is touched" [ "$(cat "$TMP/outside")" = canary ]
  }
  homed "has a link at a file's place" "mkdir -p $home/.config; ln -s $TMP/outside $home/.config/tool"
  check "it is kept and named" eval "[[ '$seen' == *kept* ]]"
  homed "has a link where the records are" "mkdir -p $home/.local/state/ax-runner; ln -s $TMP $home/.local/state/ax-runner/seed; chown -R 1000:1000 $home/.local"
  check "the file is written, the record's failure is said" eval "grep -q two '$TMP/out' && [[ '$seen' == *failed* ]]"
  homed "has a pipe at a file's place" "mkdir -p $home/.config; mkfifo $home/.config/tool; rm $home/.config/tool; mkfifo $home/.config/tool.x; mv $home/.config/tool.x $home/.config/tool; echo >/dev/null & exec 5<>$home/.config/tool; echo pipe >\\&5"
  homed "has a file at a directory's place" "touch $home/.config"
  check "that is said" eval "[[ '$seen' == *'Not a directory'* ]]"
  homed "is of root" "mkdir -p $home/.config $home/.local"
  check "the reason is said" eval "[[ '$seen' == *'Permission denied'* ]]"
  homed "is read-only" "mount --bind $home $home; mount -o remount,bind,ro $home"
  check "the reason is said, once" eval "[[ '$seen' == *'Read-only file system'* ]]"
  homed "has no room" "mount -t tmpfs -o size=4k,uid=1000,gid=1000,mode=700 none $home"
  check "the reason is said, with nothing half written" eval "[[ '$seen' == *'No space left'* ]]"
}
