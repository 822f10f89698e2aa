# S01: nothing moves under its name. Looks at the repository; fetches nothing.

supply_tests() {
  control_of_unpinned
  pinned_bases
  pinned_downloads
  compile_stage_has_its_sources
  pin_keeps_a_stale_digest
  examples_are_policies
  manifests_are_valid
}

# unpinned FILE: the lines that fetch an image or a file without saying which bytes.
unpinned() {
  awk '
    function known(name, parts) {
      return tolower(name) in stages || (split(name, parts, "@sha256:") == 2 && parts[2] ~ /^[0-9a-f]+$/ && length(parts[2]) == 64)
    }
    BEGIN { stages["scratch"] stages["${base}"] stages["${binary}"] }
    { word = tolower($1); line = $0 }
    word == "arg" && $2 ~ /^(BASE|BUILDER)=/ && !known(substr($2, index($2, "=") + 1)) { print FNR ": " line }
    word == "from" {
      at = 2
      while ($at ~ /^--/) at++
      if (!known($at)) print FNR ": " line
      if (tolower($(at + 1)) == "as") stages[tolower($(at + 2))]
    }
    word != "from" {
      rest = line
      while (match(rest, /[-,=]from=[^ ,]+/)) {
        if (!known(substr(rest, RSTART + 6, RLENGTH - 6))) print FNR ": " line
        rest = substr(rest, RSTART + RLENGTH)
      }
    }
    word == "add" && /:\/\/|git@/ && !/--checksum=sha256:/ { print FNR ": " line }
  ' "$1"
}

# Each way to fetch by name must be seen.
control_of_unpinned() {
  local line digest
  digest=$(printf a | sha256sum | cut -d' ' -f1)
  while read -r line; do
    printf 'FROM base@sha256:%s AS one\n%s\n' "$digest" "$line" >"$TMP/control"
    check "control: '$line' is seen" [ -n "$(unpinned "$TMP/control")" ]
  done <<'END'
FROM debian:trixie
from debian
FROM --platform=linux/amd64 debian@sha256:1234 AS x
COPY --from=docker.io/library/busybox:latest /bin/busybox /x
RUN --mount=type=bind,from=alpine,target=/x true
RUN --mount=from=alpine:3 true
ADD https://example.test/tool.tar.gz /opt/
ADD git@example.test:a/b.git /opt/
END
  printf 'FROM base@sha256:%s AS one\nFROM one\nCOPY --from=one /a /b\nADD a /b\n' "$digest" >"$TMP/control"
  SEEN=$(unpinned "$TMP/control")
  check "control: what is pinned is let through" [ -z "$SEEN" ]
}

pinned_bases() {
  local file
  while read -r file; do
    SEEN=$(unpinned "$file")
    check "S01 each FROM of ${file#"$ROOT"/} is a digest or a stage of it" [ -z "$SEEN" ]
  done < <(find "$ROOT" -path "$ROOT/target" -prune -o -path "$ROOT/.git" -prune -o \( -iname 'Containerfile*' -o -iname 'Dockerfile*' \) -print)
  SEEN=$(grep -rnE '^# *syntax=' "$ROOT/image/Containerfile")
  check "S01 no frontend is fetched by name" [ -z "$SEEN" ]
  SEEN=$(find "$ROOT/.github" -name '*.y*ml' -exec grep -nE 'uses: *[^ ]+' {} + 2>/dev/null | grep -vE '@[0-9a-f]{40}( |$)|uses: *\./')
  check "S01 each action is a commit" [ -z "$SEEN" ]
}

pinned_downloads() {
  SEEN=$(grep -nE '(curl|wget)[^|]*\| *(ba|da)?sh' "$ROOT"/image/* -r)
  check "S01 nothing downloaded is piped into a shell" [ -z "$SEEN" ]
  SEEN=$(grep -nE 'cargo (build|install|test)' "$ROOT/image/Containerfile" "$ROOT/image/build" | grep -v -- '--locked')
  check "S01 cargo runs with --locked" [ -z "$SEEN" ]
  SEEN=$(grep -cE '^[0-9a-f]{64}  (cargo|rustc|rust-std)-[0-9.]+-(x86_64|aarch64)-unknown-linux-gnu\.tar\.xz$' "$ROOT/image/toolchain.sha256")
  check "S01 the toolchain has a checksum for each part and architecture" [ "$SEEN" = 6 ]
  SEEN=$(grep -nE '^ARG SNAPSHOT=' "$ROOT/image/Containerfile" | cut -d= -f2 | sort -u)
  check "S01 packages come from one dated snapshot" eval "[[ '$SEEN' =~ ^[0-9]{8}T[0-9]{6}Z$ ]]"
}

# The stage that compiles needs a toolchain from outside and minutes, so it is not run here. What the compiler read for
# the binary under test is at least all copied into it, and not kept out of the context.
compile_stage_has_its_sources() {
  local list=$AX_RUNNER_BIN.d sources file source
  [ -e "$list" ] || { skip "S01 the compile stage's sources" "there is no list of sources beside $AX_RUNNER_BIN"; return; }
  sources=$(sed -n '/ AS builder$/,/ AS prebuilt$/s/^COPY \(.*\) [^ ]*$/\1/p' "$ROOT/image/Containerfile")
  SEEN=$(cut -d: -f2 "$list" | tr ' ' '\n' | sed -n "s|^${AX_RUNNER_BIN%/target/*}/||p" | while read -r file; do
    for source in $sources; do [[ $file != "$source"/* ]] || continue 2; done
    echo "$file is not copied"
  done | head -n 3)
  check "S01 the compile stage has every source of the binary ($(wc -w <"$list") files)" [ -z "$SEEN" ]
  for file in .containerignore .dockerignore; do
    SEEN=$(for source in $sources; do
      [[ $source == /* || $source == image/* ]] || grep -qxF "!$source" "$ROOT/$file" || echo "$source is kept out by $file"
    done)
    check "S01 $file lets them through" [ -z "$SEEN" ]
  done
}

# A registry that is not there: the recorded digest stays, byte for byte.
pin_keeps_a_stale_digest() {
  local digest file=$TMP/Containerfile wrong seen
  digest=sha256:$(printf '{"an":"index"}' | sha256sum | cut -d' ' -f1)
  cp "$ROOT/image/Containerfile" "$file"
  mkdir -p "$TMP/pinbin"
  pin() { SEEN=$(CONTAINERFILE=$file PATH=$TMP/pinbin:$PATH "$ROOT/image/pin" "$@" 2>&1; echo "exit $?"); }
  candidate() { sed -i "/^# candidate /d; s/^ARG BASE=.*/&\n# candidate $digest first seen $1/" "$file"; }
  printf '#!/bin/sh\nexit 1\n' >"$TMP/pinbin/skopeo"
  chmod 755 "$TMP/pinbin/skopeo"
  pin
  check "S01 pin: a registry that does not answer changes nothing" cmp -s "$ROOT/image/Containerfile" "$file"
  # One that answers. What an image says of its own age is the pusher's word.
  printf '#!/bin/sh\ncase "$*" in *--raw*) printf %%s "{\\"an\\":\\"index\\"}" ;; *) echo "1970-01-01 00:00:00 +0000 UTC" ;; esac\n' >"$TMP/pinbin/skopeo"
  pin --check
  check "S01 pin: --check changes nothing" cmp -s "$ROOT/image/Containerfile" "$file"
  seen=$(date -u +%Y-%m-%d)
  pin
  grep -q "first seen $seen$" "$file" || seen=$(date -u +%Y-%m-%d) # midnight
  check "S01 pin: a digest that was never seen is a candidate, whatever age it claims" eval \
    "[ \"\$(diff '$ROOT/image/Containerfile' '$file' | tail -n +2)\" = '> # candidate $digest first seen $seen' ]"
  candidate "$(date -u -d '3 days ago' +%Y-%m-%d)"
  cp "$file" "$TMP/waiting"
  pin
  check "S01 pin: a candidate younger than a week is not taken, and keeps its day" cmp -s "$TMP/waiting" "$file"
  for wrong in "$(date -u -d '2 days' +%Y-%m-%d)" 1970-01-01 0001-01-01 2026-13-30 '<nil>' ' '; do
    candidate "$wrong"
    cp "$file" "$TMP/waiting"
    pin
    check "S01 pin: a candidate of '$wrong' is refused in words" eval "cmp -s '$TMP/waiting' '$file' && [[ \$SEEN == 'image/pin: '*'remove that line'*'exit 1' ]]"
  done
  seen=$(date -u -d '9 days ago' +%Y-%m-%d)
  candidate "$seen"
  pin
  check "S01 pin: an older one is recorded by digest, with the packages of the day it could be taken" eval \
    "grep -q '^ARG BASE=.*@$digest$' '$file' && grep -q '^ARG SNAPSHOT=$(date -u -d "$seen + 7 days" +%Y%m%d)T000000Z$' '$file' && ! grep -q '^# candidate' '$file'"
}

examples_are_policies() {
  local file
  for file in "$ROOT"/image/policy/*; do
    "$BIN" enter --policy "$file" --print >"$TMP/out" 2>"$TMP/err"
    SEEN="exit $?: $(cat "$TMP/err")"
    check "the example ${file##*/} is a policy" eval "[[ '$SEEN' == 'exit 0: ' ]]"
  done
}

manifests_are_valid() {
  /usr/bin/python3 -c 'import yaml' 2>/dev/null || { skip "the pod and its NetworkPolicy as YAML" "python3-yaml is not installed"; return; }
  SEEN=$(/usr/bin/python3 - "$ROOT/image/k8s" <<'EOF'
import pathlib, sys, yaml
directory = pathlib.Path(sys.argv[1])
pod = yaml.safe_load((directory / "pod.yaml").read_text())
policy = yaml.safe_load((directory / "networkpolicy.yaml").read_text())
selector = policy["spec"]["podSelector"]["matchLabels"].items()
container, = pod["spec"]["containers"]
wrong = [what for what, right in {
    "the policy selects the pod": selector <= pod["metadata"]["labels"].items(),
    "both directions": sorted(policy["spec"]["policyTypes"]) == ["Egress", "Ingress"],
    "nothing comes in": policy["spec"]["ingress"] == [],
    "each way out names a peer and a port": all(rule.get("to") and rule.get("ports") for rule in policy["spec"]["egress"]),
    "no token": pod["spec"]["automountServiceAccountToken"] is False,
    "read-only root": container["securityContext"]["readOnlyRootFilesystem"] is True,
    "no capability": container["securityContext"]["capabilities"] == {"drop": ["ALL"]},
    "no escalation": container["securityContext"]["allowPrivilegeEscalation"] is False,
    "absolute entrypoint": container["command"][0].startswith("/"),
    "limits": container["resources"]["limits"].keys() >= {"cpu", "memory", "ephemeral-storage"},
    "volumes match": {v["name"] for v in pod["spec"]["volumes"]} == {m["name"] for m in container["volumeMounts"]},
}.items() if not right]
print("; ".join(wrong))
EOF
)
  check "the pod and its NetworkPolicy say what they should" [ -z "$SEEN" ]
}
