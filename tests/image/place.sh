# Where a run happens, and that nothing of it stays: temporary directories, groups of processes, podman's storage and
# network namespaces. Everything has a name of this run.

set -u
export AX_IMAGE_STORE=
PLACE=
GROUPS_STARTED=() LOGS_STARTED=() PARTS_STARTED=()

place_up() {
  trap place_down EXIT
  trap 'stop_groups; exit 130' INT TERM HUP
  remove_leftovers
  PLACE=$(mktemp -d "${TMPDIR:-/tmp}/ax-image-test.XXXXXX")
  chmod 755 "$PLACE"
  # Not /tmp, which is often a file system in memory that overlays cannot stand on.
  AX_IMAGE_STORE=$(mktemp -d /var/tmp/ax-image-test.XXXXXX)
  echo "$PLACE" >"$AX_IMAGE_STORE/place"
  # Locked before it has its name: another run that begins now must not take it for a leftover.
  exec 9>"$AX_IMAGE_STORE/in-use.new"
  flock -n 9
  mv "$AX_IMAGE_STORE/in-use.new" "$AX_IMAGE_STORE/in-use"
  # An upload of 200 MB is made here, and programs are started.
  cp "$(type -P true)" "$PLACE/true" && "$PLACE/true" && [ "$(df --output=avail -k "$PLACE" | tail -n 1)" -ge 1000000 ] ||
    { echo "tests/image: ${PLACE%/*} is not for programs or has no gigabyte free; set TMPDIR" >&2; exit 2; }
}

# A group is a session of its own, so that a signal meets all that it has started. It does not hold the lock.
start_group() {
  local place=$PLACE/${#GROUPS_STARTED[@]}
  mkdir "$place"
  : >"$place.log"
  AX_IMAGE_TMP=$place setsid ./run --part "$@" >"$place.log" 2>&1 9>&- </dev/null &
  GROUPS_STARTED+=($!)
  LOGS_STARTED+=("$place.log")
  PARTS_STARTED+=("$*")
}

# Shows each group's lines as they come, one group after the other, and adds up.
finish_groups() {
  local index passed=0 failed=0 skipped=0 p f s
  for index in "${!GROUPS_STARTED[@]}"; do
    tail -n +1 -f --pid="${GROUPS_STARTED[index]}" "${LOGS_STARTED[index]}" 9>&- | sed -u '/^counted /d' &
    wait "${GROUPS_STARTED[index]}"
    wait $!
    p=0 f=1 s=0
    read -r p f s < <(sed -n 's/^counted //p' "${LOGS_STARTED[index]}")
    [ -n "$p" ] || { p=0 f=1 s=0; echo "FAIL  ${PARTS_STARTED[index]}: ended early"; }
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  done
  echo "$passed passed, $failed failed, $skipped skipped"
  [ $failed = 0 ]
}

stop_groups() {
  local leader
  for leader in "${GROUPS_STARTED[@]}"; do kill -TERM -- "-$leader" 2>/dev/null; done
  for _ in $(seq 600); do
    for leader in "${GROUPS_STARTED[@]}"; do kill -0 -- "-$leader" 2>/dev/null && sleep 0.1 && continue 2; done
    return
  done
  for leader in "${GROUPS_STARTED[@]}"; do kill -KILL -- "-$leader" 2>/dev/null; done
}

place_down() {
  local leader
  stop_groups
  for leader in "${GROUPS_STARTED[@]}"; do remove_namespaces "$leader"; done
  [ -z "$AX_IMAGE_STORE" ] || remove_store "$AX_IMAGE_STORE"
}

remove_namespaces() {
  local name
  for name in "axt$1a" "axt$1p" "axt$1b"; do
    [ ! -e "/run/netns/$name" ] || ip netns del "$name" 2>/dev/null
    rm -rf "/etc/netns/$name"
  done
  rmdir "/run/ax-doctor-$1" 2>/dev/null
}

in_store() {
  local store=$1
  shift
  [ ! -e "$store/storage.conf" ] || CONTAINERS_CONF=$store/containers.conf CONTAINERS_STORAGE_CONF=$store/storage.conf podman "$@" >/dev/null 2>&1
}

# Only this run uses the storage, so all containers in it are ours.
remove_store() {
  local mount place
  in_store "$1" pod rm -fa -t 0
  in_store "$1" rm -fa -t 0
  # Builds leave mounts behind, and so does a container that was cut off.
  awk -v store="$1/" 'index($5, store) == 1 { print $5 }' /proc/self/mountinfo | sort -r |
    while read -r mount; do umount -l "$mount"; done
  place=$(cat "$1/place" 2>/dev/null)
  [[ $place != */ax-image-test.?????? ]] || rm -rf "$place"
  rm -rf "$1"
}

# What a run that could not clean up has left: its namespaces carry its process id, its storage is locked by nobody.
remove_leftovers() {
  local name store
  for name in /run/netns/axt[0-9]*[apb] /etc/netns/axt[0-9]*[apb] /run/ax-doctor-[0-9]*; do
    name=${name##*/}
    name=${name#axt} name=${name#ax-doctor-} name=${name%[apb]}
    [[ $name =~ ^[0-9]+$ ]] && ! kill -0 "$name" 2>/dev/null && remove_namespaces "$name"
  done
  for store in /var/tmp/ax-image-test.??????; do
    [ -e "$store/in-use" ] && flock -n "$store/in-use" true && remove_store "$store"
  done
}
