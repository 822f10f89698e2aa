//! libFuzzer's entry: `AX_FUZZ_TARGET` names the parser that gets the bytes. Started by `tests/fuzz/run`.

#![no_main]

use std::sync::OnceLock;

static TARGET: OnceLock<ax_runner::fuzz::Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let target = TARGET.get_or_init(|| {
        let name = std::env::var("AX_FUZZ_TARGET").expect("AX_FUZZ_TARGET names a target");
        let found = ax_runner::fuzz::TARGETS.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("no target {name}")).1
    });
    target(bytes);
});
