//! Fuzz targets: everything that parses or cuts bytes from outside, one function each.
//!
//! A target takes any bytes and panics when an invariant breaks. `fixtures/fuzz/<target>/` holds a small corpus that the unit
//! tests replay; `tests/fuzz/run` mutates it for longer, guided by coverage. The module is part of the library in tests and
//! under `cfg(fuzzing)` only, so that targets reach parsers which are nobody else's business.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a target panics with what is wrong")]

mod enter;
mod net;
mod text;
mod tools;
mod wire;

use std::future::Future;

/// Takes any bytes; panics when the parser breaks a promise.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also its corpus's directory.
pub const TARGETS: &[(&str, Target)] = &[
    ("arguments", tools::arguments),
    ("cuts", text::cuts),
    ("edit", text::edit),
    ("env_file", enter::env_file),
    ("frame", wire::frame),
    ("glob", tools::glob),
    ("hosts", enter::hosts),
    ("http_answer", net::http_answer),
    ("model_stream", wire::model_stream),
    ("path", tools::path),
    ("payload", wire::payload),
    ("policy", enter::policy),
    ("proxy_head", net::proxy_head),
    ("proxy_url", net::proxy_url),
    ("reply", wire::reply),
    ("search", tools::search),
    ("skill", tools::skill),
    ("skill_render", tools::skill_render),
    ("sse", wire::sse),
    ("surrogates", wire::surrogates),
];

/// Runs a target's future; there is one event loop a thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an event loop");
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}

/// Splits off the first line.
fn line(text: &str) -> (&str, &str) {
    text.split_once('\n').unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use super::TARGETS;
    use std::path::Path;

    /// Every target with every input of its corpus, and with what is left of each when it is cut short.
    #[test]
    fn every_target_keeps_its_promises_on_its_corpus() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/fuzz");
        for (name, target) in TARGETS {
            let files = std::fs::read_dir(corpus.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
            let mut inputs: Vec<_> = files.map(|file| file.unwrap().path()).collect();
            inputs.sort();
            assert!(inputs.len() >= 3, "{name} has hardly a corpus");
            for input in inputs {
                let bytes = std::fs::read(&input).unwrap();
                // The name of the input, should it fail.
                eprintln!("{}", input.display());
                for end in [bytes.len(), bytes.len() / 2, bytes.len().saturating_sub(1)] {
                    target(&bytes[..end]);
                }
            }
        }
    }
}
