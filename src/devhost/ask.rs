//! Asks the person at the terminal whether a call may run.

use super::policy::Verdict;
use super::transcript::steers;
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

/// One question at a time: calls of one round are proposed together.
static TERMINAL: Mutex<()> = Mutex::new(());

/// Asks. Without a terminal nobody can agree, so the call is denied.
pub(super) async fn terminal(request: &Value) -> Verdict {
    let question = question(request);
    let asked = tokio::task::spawn_blocking(move || {
        let _one = TERMINAL.lock().unwrap_or_else(PoisonError::into_inner);
        ask(&question)
    });
    match asked.await {
        Ok(Ok(true)) => Verdict::Allow,
        Ok(Ok(false)) => Verdict::Deny("the person at the terminal said no".to_owned()),
        _ => Verdict::Deny("nobody is at a terminal to ask".to_owned()),
    }
}

fn ask(question: &str) -> std::io::Result<bool> {
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    if !terminal.is_terminal() {
        return Err(std::io::Error::other("not a terminal"));
    }
    write!(terminal, "{question}\nallow? [y/N] ")?;
    let mut line = String::new();
    BufReader::new(terminal).read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// What is shown must be what runs: whatever could steer the terminal or hide text is escaped.
fn question(request: &Value) -> String {
    let text = |key: &str| request[key].as_str().map(|text| text.chars().map(shown).collect::<String>());
    let parts = ["operation", "command", "path", "content", "old_string", "new_string"];
    let shown: Vec<String> = parts.iter().filter_map(|key| text(key).map(|text| format!("{key}: {text}"))).collect();
    shown.join("\n")
}

fn shown(c: char) -> String {
    match steers(c) && c != '\n' {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::question;
    use serde_json::json;

    #[test]
    fn nothing_hides_in_a_question() {
        let asked = question(&json!({"operation": "bash", "command": "echo 'a'\r\u{1b}[2K\u{202e}\u{200b}b\nrm x"}));
        assert_eq!(asked, "operation: bash\ncommand: echo 'a'\\r\\u{1b}[2K\\u{202e}\\u{200b}b\nrm x");
    }
}
