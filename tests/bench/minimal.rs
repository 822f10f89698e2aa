//! The least a runner could be: connects to the socket it is given, sends one frame, and waits for the reply.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

fn main() -> std::io::Result<()> {
    let path = std::env::args_os().nth(1).unwrap_or_default();
    let body = br#"{"_msgId":"1","action":"llm_call","messages":[{"role":"user","content":"hello"}]}"#;
    let mut frame = (body.len() as u32).to_be_bytes().to_vec();
    frame.extend_from_slice(body);
    let mut stream = UnixStream::connect(path)?;
    stream.write_all(&frame)?;
    stream.read(&mut [0; 1024]).map(drop)
}
