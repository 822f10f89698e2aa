//! The lines of a `.gitignore` as git reads them, written so that the matcher of the `ignore` crate reads the same. To git
//! braces are plain characters, and in brackets a backslash takes the next character as it is.

/// Held by no name. Stands for a byte that is no UTF-8, and in a class keeps what follows from having a meaning.
const NOTHING: char = '\0';
/// What such a byte becomes, since a pattern of the matcher is text: any byte that is not ASCII.
const FOREIGN: &str = "[!\u{1}-\u{7f}]";
const CLASSES: [&str; 12] =
    ["alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "xdigit"];

/// A line without its LF. `None` for one that matches nothing.
pub(super) fn pattern(line: &[u8]) -> Option<String> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    // Git keeps its patterns as C strings.
    let line = line.split(|&byte| byte == 0).next().unwrap_or_default();
    let mut text = String::new();
    for chunk in line.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| NOTHING));
    }
    let (mut rest, mut out) = (text.as_str(), String::new());
    while let Some(c) = take(&mut rest) {
        match c {
            '\\' => out.extend(['\\', take(&mut rest)?]),
            '{' | '}' => out.extend(['\\', c]),
            '[' => out.push_str(&class(&mut rest)?),
            NOTHING => out.push_str(FOREIGN),
            c => out.push(c),
        }
    }
    Some(out)
}

/// A class, from what is behind its opening bracket.
fn class(rest: &mut &str) -> Option<String> {
    let negation = if rest.starts_with(['!', '^']) { take(rest).map(|_| "!")? } else { "" };
    let (mut members, mut named, mut before, mut first) = (String::new(), String::new(), None, true);
    loop {
        before = match (take(rest)?, before) {
            (']', _) if !first => break,
            ('-', Some(start)) if !rest.starts_with(']') => {
                let end = unescaped(take(rest)?, rest)?;
                // A slash is never matched, and would tie the pattern to its directory. Git compares bytes: those of a
                // longer character end the range, and are members.
                members.extend((start..=end.min('\u{7f}')).filter(|c| *c != '/'));
                members.extend(Some(end).filter(|end| !end.is_ascii()));
                None
            }
            ('[', _) if rest.starts_with(':') && rest.split_once(']')?.0[1..].ends_with(':') => {
                let (name, after) = rest[1..].split_once(":]").filter(|(name, _)| CLASSES.contains(name))?;
                *rest = after;
                named.extend(["[:", name, ":]"]);
                None
            }
            (c, _) => {
                let c = unescaped(c, rest)?;
                members.push(c);
                Some(c)
            }
        };
        first = false;
    }
    // These mean themselves only where they stand now.
    let bracket = if members.contains(']') { "]" } else { "" };
    let dash = if members.contains('-') { "-" } else { "" };
    let members = members.replace([']', '-'], "").replace('[', "[\0");
    Some(format!("[{negation}{bracket}{NOTHING}{members}{named}{dash}]"))
}

fn unescaped(c: char, rest: &mut &str) -> Option<char> {
    if c == '\\' { take(rest) } else { Some(c) }
}

fn take(rest: &mut &str) -> Option<char> {
    let c = rest.chars().next()?;
    *rest = &rest[c.len_utf8()..];
    Some(c)
}
