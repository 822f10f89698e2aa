//! Floods, broken characters and NULs.

use super::*;

/// Peak memory of this process in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_flood_is_bounded() {
    alone("output::a_flood_is_bounded", async {
        let session = Session::new();
        let base = peak();
        let answer = session.bash("printf BEGIN; yes | head -c 200M; printf END").await;
        assert!(answer.output.starts_with("BEGINy\n") && answer.output.ends_with("y\nEND"));
        assert!(answer.output.contains(&(200 * 1024 * 1024 + 8 - 100_000).to_string()));
        let answer = session.bash("printf BEGIN; head -c 200M /dev/zero | tr '\\0' x; printf END; exit 5").await;
        assert!(answer.output.starts_with("Exit code 5\nBEGINxx") && answer.output.ends_with("xxEND"));
        let answer = session.bash_for("yes >&2", Some(2000)).await;
        assert!(answer.output.starts_with("Timed out after 2000 ms") && answer.output.ends_with("y\n"));
        assert!(answer.output.len() < 110_000);
        assert!(peak() - base < 100 * 1024, "grew by {} KiB", peak() - base);
    });
}

#[test]
fn characters_survive_the_edges_of_reads() {
    alone("output::characters_survive_the_edges_of_reads", async {
        let session = Session::new();
        assert_eq!(session.bash(r"printf '\xe2'; sleep .3; printf '\x80\x94'").await.output, "—");
        let script = "import sys;sys.stdout.buffer.write(b'a'*int(sys.argv[1])+'😀'.encode())";
        for length in (4093..=4099).chain(8189..=8195).chain(65533..=65539) {
            let answer = session.bash(&format!("python3 -c \"{script}\" {length}")).await;
            assert_eq!(answer.output, format!("{}😀", "a".repeat(length)), "{length}");
        }
        assert_eq!(session.bash(r"printf 'a\xffb'").await.output, "a\u{fffd}b");
        assert_eq!(session.bash(r"printf 'x\xe2\x80'").await.output, "x\u{fffd}");
        let nul = session.bash(r"printf 'a\0b'").await;
        assert_eq!((nul.output.as_str(), nul.reported.as_str()), ("a␀b", "a␀b"));
    });
}

#[test]
fn a_nul_in_the_command_is_refused_before_anybody_is_asked() {
    alone("output::a_nul_in_the_command_is_refused_before_anybody_is_asked", async {
        let session = Session::new();
        let gate = Gate::new(
            Host::new(Arc::new(Yes), CallContext::default(), CancellationToken::new()),
            ax_runner::redact::Redactor::default(),
        );
        let args: bash::Args = serde_json::from_str(r#"{"command":"echo a\u0000b"}"#).unwrap();
        let refusal = gate.approve(args).await.unwrap_err();
        assert!(refusal.to_string().contains("command holds a NUL"));
        assert!(session.shell.run("a\0b", &session.env, session.root(), LONG, &session.cancel).await.is_err());
        assert_eq!(session.bash("echo alive").await.output, "alive\n");
    });
}
