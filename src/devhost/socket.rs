//! The stream-socket side of the host (PROTOCOL §3): frames in, frames out, heartbeats, and faults on the way.

use super::body::Body;
use super::brain::{Brain, Handled};
use super::fault::{Fault, Point};
use super::validate::Transport;
use crate::limits;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// How the host behaves on sockets.
#[derive(Debug, Clone)]
pub(crate) struct Manners {
    pub(crate) transport: Transport,
    /// Pause between heartbeats.
    pub(crate) heartbeat: Duration,
    /// Do heartbeats name the call?
    pub(crate) heartbeat_ids: bool,
    /// `false` stops reading.
    pub(crate) reading: watch::Receiver<bool>,
}

/// Accepts until `stop`.
pub(crate) async fn serve(listener: UnixListener, brain: Arc<Brain>, manners: Manners, stop: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, brain.clone(), manners.clone(), stop.child_token()));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Serves one connection to its end.
pub(crate) async fn connection(stream: UnixStream, brain: Arc<Brain>, manners: Manners, gone: CancellationToken) {
    let number = brain.connected();
    let (reader, writer) = stream.into_split();
    let (send, receive) = mpsc::channel(64);
    let wire = Wire { send, written: Arc::new(AtomicUsize::new(0)), gone: gone.clone() };
    let writing = tokio::spawn(write(writer, receive, wire.written.clone(), brain.clone(), gone.clone()));
    let mut reader = Reader { reader, brain: brain.clone(), manners, number };
    tokio::select! {
        () = gone.cancelled() => {}
        end = reader.run(&wire) => {
            // After a reset fault the unread byte must stay where it is until the socket is closed.
            if end == End::Held {
                gone.cancelled().await;
            }
        }
    }
    gone.cancel();
    // The reading half goes last or with the other: closing it first would not reset.
    let _ = writing.await;
    drop(reader);
    brain.disconnected();
}

/// The way back to the runner, shared by the exchanges of a connection.
#[derive(Clone)]
struct Wire {
    send: mpsc::Sender<Out>,
    /// Replies written so far.
    written: Arc<AtomicUsize>,
    gone: CancellationToken,
}

/// What bytes are, for whoever wants to know that they were written.
enum Sent {
    /// A heartbeat or a broken reply.
    Part,
    /// A reply; of the model's turn if there is a number.
    Reply(Option<usize>),
}

/// What the writer does.
enum Out {
    /// Bytes, in pieces of `piece`, with a pause after the first `split` bytes.
    Bytes { bytes: Vec<u8>, piece: usize, split: Option<usize>, sent: Sent },
    /// Ends the connection.
    End { reset: bool },
    /// Sends nothing more.
    Mute,
}

async fn write(
    mut writer: OwnedWriteHalf,
    mut receive: mpsc::Receiver<Out>,
    written: Arc<AtomicUsize>,
    brain: Arc<Brain>,
    gone: CancellationToken,
) {
    loop {
        let out = tokio::select! {
            biased;
            () = gone.cancelled() => return,
            out = receive.recv() => out,
        };
        match out {
            None => return,
            Some(Out::Mute) => return gone.cancelled().await,
            Some(Out::End { reset }) => {
                if reset {
                    // Without the shutdown the peer learns of the end by the reset alone.
                    writer.forget();
                }
                return gone.cancel();
            }
            Some(Out::Bytes { bytes, piece, split, sent }) => {
                let done = tokio::select! {
                    () = gone.cancelled() => return,
                    done = pieces(&mut writer, &bytes, piece, split) => done,
                };
                if done.is_err() {
                    return gone.cancel();
                }
                if let Sent::Reply(round) = sent {
                    written.fetch_add(1, Ordering::Release);
                    round.into_iter().for_each(|round| brain.delivered(round));
                }
            }
        }
    }
}

async fn pieces(writer: &mut OwnedWriteHalf, bytes: &[u8], piece: usize, split: Option<usize>) -> io::Result<()> {
    let (first, rest) = bytes.split_at(split.unwrap_or(bytes.len()).min(bytes.len()));
    for (at, part) in [first, rest].into_iter().enumerate() {
        if at == 1 && !part.is_empty() {
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        for chunk in part.chunks(piece.max(1)) {
            writer.write_all(chunk).await?;
            if piece < bytes.len() {
                tokio::task::yield_now().await;
            }
        }
    }
    Ok(())
}

#[derive(PartialEq)]
enum End {
    /// The runner is gone or the stream is useless.
    Over,
    /// An exchange resets the connection; a byte of its request is still unread.
    Held,
}

struct Reader {
    reader: OwnedReadHalf,
    brain: Arc<Brain>,
    manners: Manners,
    number: usize,
}

impl Reader {
    async fn run(&mut self, wire: &Wire) -> End {
        loop {
            let mut reading = self.manners.reading.clone();
            if reading.wait_for(|reading| *reading).await.is_err() {
                return End::Over;
            }
            let mut header = [0; 4];
            match self.reader.read(&mut header).await {
                Ok(0) | Err(_) => return End::Over,
                Ok(have) => {
                    if self.reader.read_exact(&mut header[have..]).await.is_err() {
                        return self.torn();
                    }
                }
            }
            let length = u32::from_be_bytes(header) as usize;
            if length > limits::FRAME_SEND_MAX_BYTES {
                self.brain.violation(
                    "",
                    format!("a frame of {length} bytes; the host takes {}", limits::FRAME_SEND_MAX_BYTES),
                );
                return End::Over;
            }
            match self.request(length, wire).await {
                Some(End::Over) => return End::Over,
                Some(End::Held) => return End::Held,
                None => {}
            }
        }
    }

    /// Reads one frame and starts its exchange. With a reset to come the last byte is left unread: the kernel resets a
    /// peer only if something it sent was never read. It can only be the closing brace.
    async fn request(&mut self, length: usize, wire: &Wire) -> Option<End> {
        let held = self.brain.resets() && length > 0;
        let mut body = vec![0; length];
        let wanted = if held { length - 1 } else { length };
        if self.reader.read_exact(&mut body[..wanted]).await.is_err() {
            return Some(self.torn());
        }
        if held {
            body[wanted] = b'}';
        }
        let handled = self.brain.receive(&body, self.manners.transport, self.number);
        let resets = handled.faults.iter().any(|fault| matches!(fault, Fault::Reset(_)));
        tokio::spawn(exchange(handled, self.brain.clone(), self.manners.clone(), wire.clone()));
        if held && resets {
            return Some(End::Held);
        }
        if held && self.reader.read_exact(&mut body[wanted..]).await.is_err() {
            return Some(self.torn());
        }
        None
    }

    fn torn(&self) -> End {
        self.brain.violation("", "the connection ended inside a frame");
        End::Over
    }
}

/// One request's way from its arrival to its reply.
async fn exchange(mut handled: Handled, brain: Arc<Brain>, manners: Manners, wire: Wire) {
    let faults = std::mem::take(&mut handled.faults);
    let (waits, faults): (Vec<Fault>, Vec<Fault>) = faults.into_iter().partition(|fault| fault.delay().is_some());
    if faults.iter().any(Fault::unread) {
        return broken(&faults, &[], &wire).await;
    }
    let id = handled.msg_id.clone();
    let silent = waits.iter().any(|fault| matches!(fault, Fault::LateMs(_)));
    let pause: u64 = waits.iter().filter_map(Fault::delay).map(|(ms, _)| ms).sum();
    let work = async {
        brain.settle(&mut handled).await;
        tokio::time::sleep(Duration::from_millis(pause)).await;
    };
    tokio::select! {
        () = wire.gone.cancelled() => return,
        () = work => {}
        () = heartbeats(&manners, id.as_deref(), &wire), if !silent => {}
    }
    let faults: Vec<Fault> = faults.into_iter().chain(std::mem::take(&mut handled.faults)).collect();
    reply(handled, &faults, &wire).await;
}

/// Never ends by itself.
async fn heartbeats(manners: &Manners, id: Option<&str>, wire: &Wire) {
    loop {
        tokio::time::sleep(manners.heartbeat).await;
        let mut beat = serde_json::json!({"_heartbeat": true, "ts": super::now_ms()});
        if let (true, Some(id)) = (manners.heartbeat_ids, id) {
            beat["_msgId"] = id.into();
        }
        let out =
            Out::Bytes { bytes: frame(beat.to_string().as_bytes()), piece: usize::MAX, split: None, sent: Sent::Part };
        if wire.send.send(out).await.is_err() {
            return std::future::pending().await;
        }
    }
}

async fn reply(handled: Handled, faults: &[Fault], wire: &Wire) {
    let has = |fault: &Fault| faults.contains(fault);
    let id = match &handled.msg_id {
        _ if has(&Fault::NoId) => None,
        Some(_) if has(&Fault::WrongId) => Some("999999999".to_owned()),
        id => id.clone(),
    };
    let body = faults.iter().find_map(|fault| match fault {
        Fault::Body(text) => Some(Body::Exact(text.clone())),
        _ => None,
    });
    let mut bytes = frame(&body.unwrap_or(handled.body).bytes(id.as_deref()));
    if has(&Fault::Oversized) {
        bytes[..4].copy_from_slice(&[0xff; 4]);
    }
    if has(&Fault::Reorder) {
        overtaken(wire).await;
    }
    if faults.iter().any(|fault| matches!(fault, Fault::Close(_) | Fault::Reset(_) | Fault::Silence(_))) {
        return broken(faults, &bytes, wire).await;
    }
    let piece = faults.iter().find_map(|fault| match fault {
        Fault::Pieces(piece) => Some(*piece),
        _ => None,
    });
    let split = faults.iter().find_map(|fault| match fault {
        Fault::SplitAt(at) => Some(*at),
        _ => None,
    });
    // An oversized or misaddressed reply is as good as lost.
    let round = handled.round.filter(|_| !has(&Fault::Oversized) && !has(&Fault::WrongId));
    let copies = if has(&Fault::Duplicate) { 2 } else { 1 };
    for _ in 0..copies {
        let out =
            Out::Bytes { bytes: bytes.clone(), piece: piece.unwrap_or(usize::MAX), split, sent: Sent::Reply(round) };
        let _ = wire.send.send(out).await;
    }
}

/// Waits until another reply was written, at most two seconds.
async fn overtaken(wire: &Wire) {
    let before = wire.written.load(Ordering::Acquire);
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if wire.written.load(Ordering::Acquire) > before {
            return;
        }
    }
}

/// Breaks the connection as the first fault says, after as much of the reply as it lets through.
async fn broken(faults: &[Fault], reply: &[u8], wire: &Wire) {
    for fault in faults {
        let (point, then) = match fault {
            Fault::Close(point) => (point, Some(Out::End { reset: false })),
            Fault::Reset(point) => (point, Some(Out::End { reset: true })),
            Fault::Silence(point @ Point::Reply(_)) => (point, Some(Out::Mute)),
            Fault::Silence(point) => (point, None),
            _ => continue,
        };
        if let Point::Reply(sent) = point {
            let bytes = reply[..reply.len().min(*sent)].to_vec();
            let _ = wire.send.send(Out::Bytes { bytes, piece: usize::MAX, split: None, sent: Sent::Part }).await;
        }
        if let Some(then) = then {
            let _ = wire.send.send(then).await;
        }
        return;
    }
}

fn frame(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(body.len() + 4);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}
