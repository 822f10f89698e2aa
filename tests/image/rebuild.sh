# S01: what a build of the image fetches, and whether a second one gives the same. Beside the other parts, as it takes long.

rebuild_tests() {
  need podman runc socat debootstrap
  engine_up && image_up || { not_ok "rebuild" "$(tail -n 5 "$TMP/build.log" 2>/dev/null)"; return; }
  what_the_build_fetched
  same_twice
}

# S01: a build sees a network only through the proxy, so its log is all that was fetched.
what_the_build_fetched() {
  SEEN="$(wc -l <"$CACHE/fetched-$PPID") requests; $(awk -v a="$MIRROR/" -v b="$MIRROR_SECURITY/" 'index($2, a) != 1 && index($2, b) != 1' "$CACHE/fetched-$PPID" | head -n 3)"
  check "S01 the build fetched from the package mirror alone (${SEEN%%;*})" eval "[ -s '$CACHE/fetched-$PPID' ] && [[ '$SEEN' == *'; ' ]]"
  SEEN=$(grep -vE '/(In)?Release(\.gpg)? |/by-hash/|/Packages(\.[a-z]+)? |\.deb ' "$CACHE/fetched-$PPID" | head -n 3)
  check "S01 nothing but signed indexes and packages they name" [ -z "$SEEN" ]
}

# S01: twice from nothing. Run beside the other parts, as it takes a while.
same_twice() {
  build localhost/ax-image-test/again:latest || { not_ok "S01 a second build" "$(tail -n 5 "$TMP/build.log")"; return; }
  SEEN=$(podman image inspect -f '{{.Digest}} {{.RootFS.Layers}}' $IMAGE localhost/ax-image-test/again:latest)
  if [ "$(grep -c '^sha256:' <<<"$SEEN") $(sort -u <<<"$SEEN" | wc -l)" = "2 1" ]; then
    ok "S01 two builds from nothing are the same image, bit by bit"
  else
    not_ok "S01 two builds from nothing are the same image" "$(diff -rq --no-dereference "$(podman image mount $IMAGE)" "$(podman image mount localhost/ax-image-test/again:latest)" 2>&1 | head -n 10)"
    podman image unmount -a >/dev/null
  fi
  podman rmi -f localhost/ax-image-test/again:latest >/dev/null 2>&1
}
