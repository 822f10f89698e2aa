# N13 for the entrypoint: resolver files and name servers as they are met. A part of net.sh, on its network.

# N13: the files a resolver reads, as they are met.
resolver_files() {
  local etc=/etc/netns/$AGENT_NS name
  local resolv="nameserver $PEER4" hosts
  hosts=$(grep -v '# ax-runner enter' "$etc/hosts")
  resolves() { # WHAT RESOLV-CONF NAME
    reset_rules
    [ "$3" = twice.test ] || printf '%s\n' "$hosts" >"$etc/hosts"
    printf '%b' "$2" >"$etc/resolv.conf"
    run_enter AX_NET_POLICY=allow AX_NET_ALLOW=$3:3128 -- -- socat $PATIENT - TCP4:$3:3128
    SEEN="exit $RC after $MS ms: $OUT $ERR"
    check "N13 $1" [ "$OUT" = greeting ]
  }
  resolves "options nobody knows, carriage returns, a comment in Latin-1" \
    "# caf\\xe9\\noptions no-aaaa foo:bar trust-ad\\r\\nnonsense here\\n$resolv\\r\\n" double.test
  resolves "ndots and six search domains" "$resolv\\nsearch a.test b.test c.test d.test e.test f.test\\noptions ndots:5 timeout:1\\n" double.test
  resolves "a resolv.conf of a megabyte" "$resolv\\n#$(head -c 1000000 /dev/zero | tr '\0' x)\\n" double.test
  printf '# caf\xe9\n%s\n' "$hosts" >"$etc/hosts"
  resolves "a hosts file with a comment in Latin-1" "" twice.test
  printf '%s\n' "$hosts" >"$etc/hosts"
  for name in 'nothing:' 'garbage:\0\xff\xfe' 'no server:search test\n'; do
    reset_rules
    printf '%s\n' "$hosts" >"$etc/hosts"
    printf '%b' "${name#*:}" >"$etc/resolv.conf"
    run_enter AX_NET_POLICY=allow AX_NET_ALLOW=double.test:80 -- -- echo RAN
    SEEN="exit $RC after $MS ms: $OUT $ERR"
    check "N13 a resolv.conf that holds ${name%%:*}: named, in time" eval "[ $RC = 77 -a -z '$OUT' -a $MS -lt $HANG ] && grep -q resolv.conf '$TMP/err'"
  done
  printf '%s\n' "$resolv" >"$etc/resolv.conf"
  # A hosts file without room: the start goes on with a warning, and no half line stays.
  reset_rules
  mkdir -p "$TMP/room"
  cat >"$TMP/full" <<EOF
mount -t tmpfs -o size=8k none $TMP/room && cp /etc/hosts $TMP/room/hosts && mount --bind $TMP/room/hosts /etc/hosts || exit 99
head -c \$((4090 - \$(stat -c %s /etc/hosts))) /dev/zero | tr '\0' '#' >>/etc/hosts
dd if=/dev/zero of=$TMP/room/rest bs=4096 count=9 2>/dev/null
"\$@"
echo "code \$?, \$(stat -c %s /etc/hosts) bytes"
EOF
  WRAP="bash $TMP/full" run_enter AX_NET_POLICY=allow AX_NET_ALLOW=double.test:3128 -- -- true
  SEEN="$OUT; $ERR"
  check "N13 a hosts file without room: a warning, and no half line" eval "[[ '$OUT' == 'code 0, 4090 bytes' ]] && grep -q hosts_file_not_written '$TMP/err'"
  reset_rules
}

# N13: name servers as they are met. What resolves is let through; what does not ends the start and says so.
name_servers() {
  background "${IN_PEER[@]}" /usr/bin/python3 "$HERE/dns.py" $PEER4 $PEER4 $PEER6
  wait_for 'listens -u "53 and src $PEER4" in_peer && listens -t 53 in_peer'
  local name
  for name in refused6 silent6 double truncated flaky under_score; do
    reset_rules
    run_enter AX_NET_POLICY=allow AX_NET_ALLOW=$name.test:3128 -- -- socat $PATIENT - TCP4:$name.test:3128
    SEEN="exit $RC after $MS ms: $OUT $ERR"
    check "N13 a server that is $name: resolved, and usable after the rules ($MS ms)" [ "$OUT" = greeting ]
  done
  reset_rules
  run_enter AX_NET_POLICY=allow AX_NET_ALLOW=double.test.:3128 -- -- socat $PATIENT - TCP4:double.test.:3128
  SEEN="exit $RC after $MS ms: $OUT $ERR"
  check "N13 a name with its final dot, usable after the rules" [ "$OUT" = greeting ]
  reset_rules
  if has_ipv6; then
    run_enter AX_NET_POLICY=allow AX_NET_ALLOW=only6.test:3129 -- -- socat $PATIENT - TCP6:only6.test:3129
    SEEN="exit $RC after $MS ms: $OUT $ERR"
    check "N13 a name with IPv6 only" [ "$OUT" = greeting ]
  else
    skip "N13 a name with IPv6 only" "this kernel has none"
  fi
  for name in missing:'cannot be resolved' silent:'no answer' nowhere4:'not the address'; do
    reset_rules
    run_enter AX_NET_POLICY=allow AX_NET_ALLOW=${name%%:*}.test:80 -- -- echo RAN
    SEEN="exit $RC after $MS ms: $OUT $ERR"
    check "N13 a name that is ${name%%:*} ends the start ($MS ms)" eval "[ $RC = 77 -a -z '$OUT' -a $MS -lt $HANG ] && grep -q '${name#*:}' '$TMP/err'"
  done
}

# N13: several name servers, of which only the last one is any good; and one that takes TCP only.
servers_in_a_row() {
  local etc=/etc/netns/$AGENT_NS fault at=20 servers count hosts
  hosts=$(grep -v '# ax-runner enter' "$etc/hosts")
  greets() {
    reset_rules
    run_enter AX_NET_POLICY=allow AX_NET_ALLOW=double.test:3128 -- -- socat $PATIENT - TCP4:double.test:3128
    SEEN="exit $RC after $MS ms: $OUT $ERR"
    [ "$OUT" = greeting ]
  }
  for fault in servfail refused tcp; do
    background "${IN_AGENT[@]}" /usr/bin/python3 "$HERE/dns.py" 127.0.0.$((at += 1)) $PEER4 $PEER6 $fault
  done
  wait_for 'listens -u "53 and src 127.0.0.21" in_agent && listens -u "53 and src 127.0.0.22" in_agent && listens -t 53 in_agent'
  # At .77 and .78 nobody listens.
  for servers in "21 22" "22 21" "21 21" "77 78" "77 21"; do
    printf 'nameserver 127.0.0.%s\n' $servers >"$etc/resolv.conf"
    printf 'nameserver %s\n' $PEER4 >>"$etc/resolv.conf"
    # Which server is asked first must not be a matter of luck.
    for count in 1 2 3; do
      printf '%s\n' "$hosts" >"$etc/hosts"
      greets || break
    done
    check "N13 a good name server behind $servers" [ "$OUT" = greeting ]
  done
  printf '%s\n' "$hosts" >"$etc/hosts"
  printf 'nameserver 127.0.0.23\noptions use-vc\n' >"$etc/resolv.conf"
  check "N13 a name server for TCP only" greets
  printf 'nameserver %s\n' $PEER4 >"$etc/resolv.conf"
  # What an earlier start has written is not what a name means now.
  printf '%s\n10.255.255.1\tdouble.test\t# ax-runner enter\n' "$hosts" >"$etc/hosts"
  check "N13 a name whose address has changed since an earlier start" greets
}

# The sidecar asks the host of that name about a commit, and asks for its address itself: the C library's resolver, which
# loads modules from the container, is not in the program.
sidecar_names() {
  local work=$TMP/sidecar git="git -c user.name=a -c user.email=a@b -c safe.directory=*"
  reset_rules
  mkdir -p "$work/w"
  git init --quiet --bare "$work/remote"
  git clone --quiet "$work/remote" "$work/w" 2>/dev/null
  $git -C "$work/w" commit --quiet --allow-empty -m start
  $git -C "$work/w" push --quiet origin HEAD
  mv "$work/w/.git" "$work/gitdir"
  mkdir -p "$work/w/.ax/skills/new"
  printf 'a skill\n' >"$work/w/.ax/skills/new/SKILL.md"
  cat >"$work/host" <<'EOF'
printf 'HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 33\r\n\r\n{"ok":false,"reason":"not there"}'
cat >/dev/null
EOF
  background "${IN_PEER[@]}" socat TCP-LISTEN:3131,bind=$PEER4,fork,reuseaddr SYSTEM:"bash $work/host"
  wait_for 'listens -t 3131 in_peer'
  background "${IN_AGENT[@]}" env -i PATH="$PATH" AX_WORKSPACE="$work/w" AX_GITDIR="$work/gitdir" AX_GIT_SIDECAR_PORT=9198 \
    AX_HOST_URL=http://double.test:3131 "$BIN" git-sidecar 2>"$work/err"
  wait_for 'listens -t 9198 in_agent'
  in_agent curl --silent --max-time 60 -X POST http://127.0.0.1:9198/turn-complete >"$work/out"
  SEEN="$(cat "$work/out" "$work/err")"
  check "N13 the sidecar's host by its name: asked, and its verdict taken" grep -q 'not there' "$work/out"
}
