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

#[cfg(test)]
mod tests {
    use super::*;
    use ignore::gitignore::GitignoreBuilder;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1024))]
        #[test]
        fn any_line_gives_a_pattern_that_can_be_matched(
            line in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..24),
                "[a-c!^\\[\\]{}\\\\*?:/ -]{0,16}".prop_map(String::into_bytes),
                "(\\[|\\[\\[:|:\\]|\\]|alpha|[!^-]|a-z|\\\\|é|\r|/){0,12}".prop_map(String::into_bytes),
            ],
            path in "[a-cé{}\\[\\]-]{1,4}(/[a-c]{1,3})?",
        ) {
            if let Some(pattern) = pattern(&line) {
                // No longer than a class that is written out needs.
                prop_assert!(pattern.len() <= 16 + 140 * line.len(), "{pattern:?}");
                let mut builder = GitignoreBuilder::new("");
                if builder.add_line(None, &pattern).is_ok() {
                    let _ = builder.build().unwrap().matched(&path, false);
                }
                // Outside of a class every brace is a plain one, and nothing else changes.
                if line.is_ascii() && !line.iter().any(|byte| b"[\\\0\r".contains(byte)) {
                    prop_assert_eq!(pattern.replace("\\{", "{").replace("\\}", "}").into_bytes(), line);
                    prop_assert_eq!(pattern.matches(['{', '}']).count(), pattern.matches('\\').count());
                }
            }
        }
    }
}
