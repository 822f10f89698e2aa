//! The certificate files (PROTOCOL §11.3): the host's own authority, and it together with the system's.
//!
//! The files belong to the same user as the commands that read them, so a command can damage them; that harms only
//! commands. The runner never reads them back.

use crate::limits;
use base64::Engine;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Where distributions keep the system's bundle.
const SYSTEM_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Why there are no certificate files. The turn goes on without.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// Nothing usable in the payload's text.
    #[error("the payload's caCert holds no usable certificate; the host must send PEM")]
    NoCertificate,
    /// No place to put them.
    #[error("no directory takes the certificate files ({0}); set TMPDIR or AX_HOME to a writable one")]
    NoDirectory(io::Error),
    /// The files could not be written.
    #[error("the certificate files could not be written: {0}")]
    Write(io::Error),
}

/// The files of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaPaths {
    /// Only the host's authority.
    pub own: PathBuf,
    /// The system's authorities and the host's.
    pub bundle: PathBuf,
    /// Settings for wget, which reads no environment variable for this.
    pub wgetrc: PathBuf,
    /// Some of the payload's certificates were left out because they do not parse.
    pub partly_bad: bool,
}

/// Writes the files, in one private directory for the session, so that a process of an earlier turn finds the current
/// ones under the names it knows.
#[derive(Debug)]
pub struct CaFiles {
    candidates: Vec<PathBuf>,
    directory: Option<PathBuf>,
}

impl CaFiles {
    /// Uses the first of `candidates` that is writable, when the first certificate comes.
    pub fn new(candidates: Vec<PathBuf>) -> Self {
        Self { candidates, directory: None }
    }

    /// Writes the files of a turn.
    pub fn write(&mut self, pem: &str) -> Result<CaPaths, CaError> {
        let (certificates, bad) = parse(pem);
        if certificates.is_empty() {
            return Err(CaError::NoCertificate);
        }
        let own: String = certificates.iter().map(|der| armour(der)).collect();
        let mut bundle = system_bundle();
        if !bundle.ends_with('\n') {
            bundle.push('\n');
        }
        bundle.push_str(&own);
        // A child may have removed the directory since the last turn.
        let directory = match self.directory.take().filter(|directory| directory.is_dir()) {
            Some(directory) => directory,
            None => make_directory(&self.candidates).map_err(CaError::NoDirectory)?,
        };
        let paths = CaPaths {
            own: directory.join("ca.pem"),
            bundle: directory.join("bundle.pem"),
            wgetrc: directory.join("wgetrc"),
            partly_bad: bad > 0,
        };
        let wgetrc = format!("ca_certificate = {}\n", paths.bundle.display());
        self.directory = Some(directory);
        for (path, text) in [(&paths.own, &own), (&paths.bundle, &bundle), (&paths.wgetrc, &wgetrc)] {
            replace(path, text.as_bytes()).map_err(CaError::Write)?;
        }
        Ok(paths)
    }
}

impl Drop for CaFiles {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            let _ = fs::remove_dir_all(directory);
        }
    }
}

/// The certificates that a TLS library will take, and the number of those it will not.
fn parse(pem: &str) -> (Vec<CertificateDer<'static>>, usize) {
    let (mut good, mut bad) = (Vec::new(), 0);
    let mut store = RootCertStore::empty();
    for item in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        match item {
            Ok(der) if store.add(der.clone()).is_ok() => good.push(der),
            Ok(_) => bad += 1,
            Err(_) => {
                bad += 1;
                break;
            }
        }
    }
    (good, bad)
}

/// Written anew rather than copied: clients differ in what they make of stray text, keys or line ends in a bundle.
fn armour(der: &[u8]) -> String {
    let body = base64::engine::general_purpose::STANDARD.encode(der);
    let mut text = String::with_capacity(body.len() + body.len() / 64 + 64);
    text.push_str("-----BEGIN CERTIFICATE-----\n");
    for line in body.as_bytes().chunks(64) {
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}

/// The system's bundle, or the built-in roots where the image has none: hosts the proxy does not intercept are checked
/// against them.
fn system_bundle() -> String {
    let read = |path: &&str| {
        let mut text = String::new();
        let file = File::open(path).ok()?;
        file.take(limits::CA_BUNDLE_MAX_BYTES).read_to_string(&mut text).ok()?;
        Some(text).filter(|text| text.contains("-----BEGIN CERTIFICATE-----"))
    };
    SYSTEM_BUNDLES
        .iter()
        .find_map(read)
        .unwrap_or_else(|| webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(|der| armour(der)).collect())
}

/// A new directory only we can enter, in the first place that takes a file.
fn make_directory(candidates: &[PathBuf]) -> io::Result<PathBuf> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for parent in candidates {
        for attempt in 0..100_u32 {
            let path = parent.join(format!("ax-ca-{}-{attempt}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    last = error;
                    break;
                }
            }
        }
    }
    Err(last)
}

/// Writes beside and renames, so that a reader has the old or the new text and never half of one, and a link planted
/// under the name is replaced instead of followed.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
#[path = "ca_tests.rs"]
mod tests;
