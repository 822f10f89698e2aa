//! What a first run shows: a tiny project with a failing test, and a model's script that repairs it.

use std::io;
use std::path::Path;

/// The script.
pub(super) const SCRIPT: &str = include_str!("../../fixtures/tour/script.json");
/// What the user says.
pub(super) const MESSAGE: &str = "The tests of this project fail. Find out why and fix it.";

const FILES: [(&str, &str); 3] = [
    ("README.md", include_str!("../../fixtures/tour/project/README.md")),
    ("src/slug.sh", include_str!("../../fixtures/tour/project/src/slug.sh")),
    ("tests/run.sh", include_str!("../../fixtures/tour/project/tests/run.sh")),
];

/// Writes the project into a directory.
pub(super) fn unpack(directory: &Path) -> io::Result<()> {
    for (name, content) in FILES {
        let path = directory.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, content)?;
    }
    Ok(())
}
