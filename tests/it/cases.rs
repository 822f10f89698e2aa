//! The field failures this program is measured against, and the test that holds each of them.
//!
//! A test that is made for a row begins with the row's number, `b01_…` say, and a check of `tests/image` with `N01 …`; others are
//! named below. The table `fixtures/cases.md` is written from both (`AX_WRITE_FIXTURES=1`); a row without a test needs a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/cases.md");

/// A row: its number, what goes wrong, tests that are not named after it, and why there is none here if so.
struct Case(&'static str, &'static str, &'static [&'static str], &'static str);

#[rustfmt::skip]
const CASES: [Case; 64] = [
    Case("B01", "a call waits for whoever holds its pipe", &["a_background_process_that_holds_the_pipe_does_not_hold_the_call", "the_tail_is_never_lost"], ""),
    Case("B02", "what a stopped call has started lives on", &["a_time_limit_ends_all_of_it", "every_call_has_its_own_end_under_every_schedule"], ""),
    Case("B03", "a full second stream blocks the first", &["both_streams_are_drained_together_and_keep_their_order"], ""),
    Case("B04", "output is collected without a bound", &["a_flood_is_bounded", "quick_faults_end_as_the_table_says"], ""),
    Case("B05", "a character is cut by the edge of a read", &["characters_survive_the_edges_of_reads", "any_chunking_gives_the_same_text"], ""),
    Case("B07", "a command waits for input, or eats the payload", &["input_is_at_its_end"], ""),
    Case("B08", "a death by signal is told as something else", &["every_end_has_its_own_report"], ""),
    Case("B09", "a child's environment is a list of exceptions", &["the_environment_is_the_list_and_nothing_else"], ""),
    Case("B10", "a secret is read out of the runner itself", &["the_runner_cannot_be_read_by_its_commands"], ""),
    Case("B11", "a command talks to the host in the runner's place", &["no_spelling_of_the_hosts_socket_gets_through"], ""),
    Case("B13", "orphans stay zombies, or a reaper steals a status", &["many_calls_leave_no_zombies_and_no_descriptors", "every_call_has_its_own_end_under_every_schedule"], ""),
    Case("B14", "a working directory that is gone loses the shell", &["a_directory_that_goes_away_does_not_stick"], ""),
    Case("B16", "a read-only root without a place for temporary files", &["quick_faults_end_as_the_table_says"], ""),
    Case("B18", "a NUL in a call or in its output", &["a_nul_in_the_command_is_refused_before_anybody_is_asked"], ""),
    Case("B22", "one of two streams is dropped, or their order lost", &["both_streams_are_drained_together_and_keep_their_order"], ""),
    Case("B24", "a uid without a name or a home", &["home_is_the_workspace"], ""),
    Case("F01", "a link leads out, now or in the blink of an eye", &["a_directory_that_turns_into_a_link_and_back"], ""),
    Case("F02", "directories are made before the path is judged", &["an_ancestor_that_is_swapped_while_directories_are_made"], ""),
    Case("F04", "an ordinary name is refused", &["ordinary_names_are_ordinary"], ""),
    Case("F05", "magic links of /proc and /dev lead out", &[], ""),
    Case("F06", "a kernel without the newest calls confines less", &[], ""),
    Case("F07", "a hard link is written through", &["a_hard_link_is_split"], ""),
    Case("F08", "a pipe or a device is opened and holds the call", &["a_file_that_turns_into_a_pipe_does_not_hang"], ""),
    Case("F10", "an edit changes all line ends, or finds none", &["scenarios", "only_the_matches_change"], ""),
    Case("F11", "a byte order mark is in the way, or lost", &["scenarios"], ""),
    Case("F12", "bytes that are no text are rewritten", &["scenarios", "only_the_matches_change"], ""),
    Case("F13", "the new text is taken for a template", &["nothing_is_expanded_and_nothing_is_a_pattern"], ""),
    Case("F14", "the wrong place of several is edited", &["refusals_say_how_many_and_where"], ""),
    Case("F15", "a write changes a file's permissions", &["permissions_stay"], ""),
    Case("F16", "a write that fails has destroyed the file", &["a_full_device_keeps_the_old_file", "killed_at_any_moment_leaves_the_old_file_or_the_new"], ""),
    Case("F17", "a link is replaced by a file", &["links_inside_work_and_stay_links"], ""),
    Case("G01", "a pattern is taken for an option", &[], ""),
    Case("G03", "a list is cut in silence, or said to be cut when whole", &[], ""),
    Case("G05", "a match in an endless line floods, or is hidden", &[], ""),
    Case("G06", "a pattern lists what lies outside", &["nothing_outside_can_be_named"], ""),
    Case("G07", "one odd byte takes a file out of the search", &[], ""),
    Case("G09", "hidden and ignored files are mixed up", &[], ""),
    Case("I01", "a frame cut by a lost race desynchronises the link", &["any_split_gives_the_same_frames", "every_call_has_one_outcome_under_every_schedule"], ""),
    Case("I04", "a kept connection was closed meanwhile", &[], ""),
    Case("I05", "a call runs twice, or gets another's answer", &["every_call_has_one_outcome_under_every_schedule", "any_order_of_replies_reaches_the_right_calls"], ""),
    Case("I07", "a busy tool starves the link", &[], ""),
    Case("I08", "a host that goes away loses the message in flight", &["every_call_has_one_outcome_under_every_schedule"], ""),
    Case("I11", "something else than the answer is on stdout", &[], ""),
    Case("I14", "what runs is not what was approved", &["only_one_canonical_object_is_accepted"], ""),
    Case("I15", "a stream that stalls, or a page that is no reply", &["quick_faults_end_as_the_table_says"], ""),
    Case("I16", "a payload that is almost one", &["every_target_keeps_its_promises_on_its_corpus"], ""),
    Case("L01", "broken arguments run, or end the turn", &["only_one_canonical_object_is_accepted"], ""),
    Case("L03", "a call of a batch gets no result, or two", &[], ""),
    Case("L04", "a call cut at the token limit runs", &[], ""),
    Case("L06", "an empty block poisons the conversation", &[], ""),
    Case("L07", "half a character poisons the conversation", &["replaces_only_what_has_no_partner"], ""),
    Case("P01", "a tunnel ends with its first side, or never", &["everything_arrives_when_the_origin_closes_first", "a_client_that_has_finished_still_gets_its_answer", "a_reset_is_not_passed_on_as_an_end", "silence_ends_a_tunnel_sooner_once_it_is_half_closed", "descriptors_are_back_after_a_thousand_tunnels"], ""),
    Case("P05", "the proxy's variables break servers on loopback", &["real_clients_through_a_real_proxy"], ""),
    Case("P06", "a WebSocket through the bridge loses frames", &["a_websocket_is_only_bytes"], ""),
    Case("N01", "the rules know IPv4 only", &[], ""),
    Case("N02", "data leaves as names", &[], ""),
    Case("N04", "no rules, and the payload starts all the same", &["a_wrong_policy_runs_nothing_and_is_one_line"], ""),
    Case("N05", "gVisor has half of the rules", &[], ""),
    Case("N06", "a capability is given up and comes back", &[], ""),
    Case("N09", "other protocols and old flows leave", &[], ""),
    Case("N10", "a stop is not heard, or heard late", &["sigterm_at_any_time_ends_the_runner", "every_signal_in_every_phase_has_its_code_and_leaves_nothing"], ""),
    Case("N13", "a static binary resolves, or trusts, otherwise", &["the_hosts_file_in_its_usual_disorder"], ""),
    Case("N15", "a service of ours on loopback serves the agent", &[], ""),
    Case("S01", "what is fetched moves under its name", &[], ""),
];

/// Numbers of another list: the sections of the tools' tests.
const OTHERS: [&str; 4] = ["b12_", "b13_calls_", "b14_a_host_tool_", "b14_the_fifty_first_"];

const HEAD: &str = "\
# Field failures and their tests

Written by the test `each_case_has_a_test` with `AX_WRITE_FIXTURES=1`, which fails when a row has neither a test nor a reason,
or names a test that is gone.

| row | what goes wrong | tests |
|---|---|---|
";

fn files(dir: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let source = path.extension().is_some_and(|ending| ending == "rs" || ending == "sh");
        match path.is_dir() {
            true => files(&path, found),
            false if source => found.push(fs::read_to_string(&path).unwrap()),
            false => {}
        }
    }
}

/// The numbers of rows a name begins with: `f10_to_f14_…`, `g05_and_g07_…`, `i05_a_…`.
fn rows_of(name: &str) -> BTreeSet<String> {
    let number = |word: &str| {
        let (letter, digits) = word.split_at_checked(1)?;
        let fits = digits.len() == 2 && "bfgilpns".contains(letter);
        fits.then(|| digits.parse::<u32>().ok().map(|digits| (letter.to_uppercase(), digits))).flatten()
    };
    let words: Vec<&str> = name.split('_').collect();
    let mut rows = BTreeSet::new();
    let mut at = 0;
    while let Some((letter, first)) = words.get(at).and_then(|word| number(word)) {
        let last = match (words.get(at + 1), words.get(at + 2).and_then(|word| number(word))) {
            (Some(&"to"), Some((_, last))) => last,
            _ => first,
        };
        rows.extend((first..=last).map(|digits| format!("{letter}{digits:02}")));
        at += if last > first { 3 } else { 1 };
        at += usize::from(words.get(at) == Some(&"and"));
    }
    rows
}

/// The tests there are: their names, and those of `tests/image` by the rows they name.
fn tests() -> (BTreeSet<String>, BTreeMap<String, BTreeSet<String>>) {
    let (mut names, mut rows) = (BTreeSet::new(), BTreeMap::<String, BTreeSet<String>>::new());
    let mut sources = Vec::new();
    files(&Path::new(ROOT).join("tests"), &mut sources);
    files(&Path::new(ROOT).join("src"), &mut sources);
    for source in &sources {
        let lines: Vec<&str> = source.lines().map(str::trim).collect();
        for (at, line) in lines.iter().enumerate() {
            // Attributes may stand between the mark and the name.
            let marked =
                lines[at.saturating_sub(3)..at].iter().any(|line| line.starts_with("#[") && line.contains("test"));
            let name = line.trim_start_matches("async ").strip_prefix("fn ").and_then(|rest| rest.split('(').next());
            if let Some(name) = name.filter(|_| marked) {
                names.insert(name.to_owned());
                let other = OTHERS.iter().any(|other| name.starts_with(other));
                for row in if other { BTreeSet::new() } else { rows_of(name) } {
                    rows.entry(row).or_default().insert(format!("`{name}`"));
                }
            }
            for word in ["check \"", "refused \"", "closed \"", "ends_within \""] {
                let Some((_, text)) = line.split_once(word) else { continue };
                let named = text.split(' ').take_while(|word| !rows_of(&word.to_lowercase()).is_empty());
                for row in named.flat_map(|word| rows_of(&word.to_lowercase())) {
                    rows.entry(row).or_default().insert("`tests/image/run`".to_owned());
                }
            }
        }
    }
    (names, rows)
}

#[test]
fn each_case_has_a_test() {
    let (names, mut rows) = tests();
    let mut table = HEAD.to_owned();
    let mut wrong = Vec::new();
    for Case(row, what, others, reason) in CASES {
        let mut found = rows.remove(row).unwrap_or_default();
        for other in others {
            if !names.contains(*other) {
                wrong.push(format!("{row}: there is no test {other}"));
            }
            found.insert(format!("`{other}`"));
        }
        if found.is_empty() && reason.is_empty() {
            wrong.push(format!("{row} has neither a test nor a reason"));
        }
        let list = found.into_iter().collect::<Vec<_>>().join(", ");
        let cell = [list.as_str(), reason].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
        table += &format!("| {row} | {what} | {cell} |\n");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    if std::env::var_os("AX_WRITE_FIXTURES").is_some() {
        fs::write(FIXTURE, &table).unwrap();
    }
    // A new test need not be in the committed table at once, but all that is there must be true.
    let committed = fs::read_to_string(FIXTURE).unwrap();
    for Case(row, what, ..) in CASES {
        let line = committed.lines().find(|line| line.starts_with(&format!("| {row} | {what} | ")));
        let line = line.unwrap_or_else(|| panic!("{row} is not in the table: AX_WRITE_FIXTURES=1 writes it anew"));
        for name in line.split('`').skip(1).step_by(2).filter(|name| *name != "tests/image/run") {
            assert!(names.contains(name), "the table has {name} for {row}, which is no test");
        }
    }
}

#[test]
fn rows_are_read_from_names() {
    let rows = |name| rows_of(name).into_iter().collect::<Vec<_>>().join(" ");
    assert_eq!(rows("b01_a_call"), "B01");
    assert_eq!(rows("f10_to_f14_an_edit"), "F10 F11 F12 F13 F14");
    assert_eq!(rows("f07_and_f17_links"), "F07 F17");
    assert_eq!(rows("b12_b21_a_large"), "B12 B21");
    assert_eq!(rows("i05_c_d_a_second"), "I05");
    assert_eq!(rows("bash_then_b01"), "");
}
