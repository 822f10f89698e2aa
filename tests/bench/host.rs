//! The host's end of a socket, as little as there can be: blocking, and it reads no more of a frame than it must.

use crate::Outcome;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest wait for anything; only a runner that hangs needs so long.
const PATIENCE: Duration = Duration::from_secs(120);

/// The listening socket.
pub(crate) struct Listener(UnixListener);

impl Listener {
    pub(crate) fn bind(path: &Path) -> Outcome<Self> {
        Ok(Self(UnixListener::bind(path)?))
    }

    pub(crate) fn accept(&self) -> Outcome<Wire> {
        let mut waiting = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        match poll(&mut waiting, PollTimeout::try_from(PATIENCE)?)? {
            0 => Err("nobody connects".into()),
            _ => Wire::over(self.0.accept()?.0),
        }
    }
}

/// One connection.
pub(crate) struct Wire {
    stream: UnixStream,
    body: Vec<u8>,
}

/// A request.
pub(crate) struct Request {
    /// When its last byte had been read.
    pub(crate) at: Instant,
    pub(crate) id: String,
    pub(crate) action: String,
}

impl Wire {
    pub(crate) fn over(stream: UnixStream) -> Outcome<Self> {
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, body: Vec::new() })
    }

    /// Dials a runner that listens, as soon as it does.
    pub(crate) fn dial(path: &Path) -> Outcome<Self> {
        let start = Instant::now();
        loop {
            match UnixStream::connect(path) {
                Ok(stream) => return Self::over(stream),
                Err(error) if start.elapsed() > PATIENCE => return Err(error.into()),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    pub(crate) fn receive(&mut self) -> Outcome<Request> {
        let mut header = [0; 4];
        self.stream.read_exact(&mut header)?;
        self.body.resize(u32::from_be_bytes(header) as usize, 0);
        self.stream.read_exact(&mut self.body)?;
        let at = Instant::now();
        // These two come first (PROTOCOL §3.2); the rest is of no interest here.
        let head = String::from_utf8_lossy(self.body.get(..200).unwrap_or(&self.body)).into_owned();
        let value = |key: &str| head.split_once(&format!("\"{key}\":\"")).and_then(|(_, rest)| rest.split('"').next());
        let missing = || format!("a request without id or action: {head}");
        let id = value("_msgId").ok_or_else(missing)?.to_owned();
        let action = value("action").ok_or_else(missing)?.to_owned();
        Ok(Request { at, id, action })
    }

    /// The last request's bytes.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    pub(crate) fn send(&mut self, body: &[u8]) -> Outcome<()> {
        Ok(self.stream.write_all(&frame(body))?)
    }

    /// `fields` are those of a JSON object, without its braces.
    pub(crate) fn reply(&mut self, id: &str, fields: &str) -> Outcome<()> {
        self.send(format!("{{\"_msgId\":\"{id}\",{fields}}}").as_bytes())
    }
}

/// Header and body.
pub(crate) fn frame(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let mut frame = Vec::with_capacity(body.len() + 4);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(body);
    frame
}
