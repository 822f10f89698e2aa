//! Stands between a runner and its host over HTTP, exchange by exchange, and does to each what a test says.

use crate::support::{At, Heard, How, Place, stage};
use ax_runner::devhost::Transport;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// One request as the runner wrote it.
pub(crate) struct Asked {
    /// The body's [`stage`]; the path for a request without one.
    pub(crate) stage: String,
    /// How many of this stage have come, this one included.
    pub(crate) nth: usize,
}

/// What is done to an exchange.
pub(crate) enum Deed {
    /// To the host and back.
    Pass,
    /// The same, and the connection closes: having said so, or not.
    Last { said: bool },
    /// Cut at this place, in this way.
    Cut(Place, How),
    /// The host sees nothing; the runner gets what is written here, and then the end.
    Instead(Box<dyn Fn(&mut TcpStream)>),
}

type Rule = Box<dyn Fn(&Asked) -> Deed + Send + Sync>;

struct Shared {
    host: String,
    rule: Rule,
    heard: Arc<Heard>,
    /// Connections that have gone silent stay open.
    silent: Mutex<Vec<TcpStream>>,
}

/// A relay; its connections end with the test's process.
pub(crate) struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Relay {
    /// Starts before the host at this URL.
    pub(crate) fn start(host: &str, rule: impl Fn(&Asked) -> Deed + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            host: host.strip_prefix("http://").unwrap().to_owned(),
            rule: Box::new(rule),
            heard: Arc::default(),
            silent: Mutex::default(),
        });
        let inner = shared.clone();
        shared.heard.serve(move || listener.accept().map(|(stream, _)| stream), move |stream| inner.serve(stream));
        Self { address, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How often the runner wrote a request of this [`stage`].
    pub(crate) fn written(&self, stage: &str) -> usize {
        self.shared.heard.written(stage)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.heard.end();
        let _ = TcpStream::connect(self.address);
        self.shared.silent.lock().unwrap().clear();
        self.shared.heard.judge.ask();
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some(message) = Message::read(&mut reader) {
            if !self.exchange(&message, &stream) {
                return;
            }
        }
    }

    /// `false` when the connection is over.
    fn exchange(&self, message: &Message, stream: &TcpStream) -> bool {
        let path = message.head.split(' ').nth(1).unwrap_or_default().to_owned();
        let stage = match serde_json::from_slice::<Value>(&message.body) {
            Ok(request) => {
                self.heard.judge.hear(&message.body, Transport::Http);
                stage(&request)
            }
            Err(_) => path,
        };
        let nth = self.heard.count(&stage);
        let asked = Asked { stage, nth };
        let mut runner = stream;
        match (self.rule)(&asked) {
            Deed::Pass => match self.host(message) {
                Some(reply) => runner.write_all(&reply.bytes()).is_ok(),
                None => false,
            },
            Deed::Last { said } => {
                if let Some(mut reply) = self.host(message) {
                    if said {
                        reply.head.insert_str(reply.head.len() - 2, "Connection: close\r\n");
                    }
                    let _ = runner.write_all(&reply.bytes());
                }
                false
            }
            Deed::Instead(write) => {
                let mut stream = stream.try_clone().unwrap();
                write(&mut stream);
                let _ = stream.shutdown(Shutdown::Both);
                false
            }
            Deed::Cut(place, how) => {
                let reply = match place {
                    Place::Before => None,
                    Place::Request(at) => {
                        self.part(message, at);
                        None
                    }
                    Place::After | Place::Reply(_) => self.host(message),
                };
                if let (Place::Reply(at), Some(reply)) = (place, reply) {
                    let bytes = reply.bytes();
                    let _ = runner.write_all(&bytes[..at.of(bytes.len())]);
                    // What was sent must be there before a reset can throw it away.
                    std::thread::sleep(std::time::Duration::from_millis(30));
                }
                self.cut(stream, how);
                false
            }
        }
    }

    fn cut(&self, stream: &TcpStream, how: How) {
        match how {
            How::Eof => {
                let _ = stream.shutdown(Shutdown::Both);
            }
            How::Reset => {
                let now = nix::libc::linger { l_onoff: 1, l_linger: 0 };
                nix::sys::socket::setsockopt(stream, nix::sys::socket::sockopt::Linger, &now).unwrap();
            }
            How::Silence => self.silent.lock().unwrap().push(stream.try_clone().unwrap()),
        }
    }

    /// The host gets the whole request; its whole reply, if one comes.
    fn host(&self, message: &Message) -> Option<Message> {
        let mut host = TcpStream::connect(&self.host).ok()?;
        host.write_all(&message.bytes()).ok()?;
        Message::read(&mut BufReader::new(host))
    }

    /// The host gets the beginning of the request and an end.
    fn part(&self, message: &Message, at: At) {
        let Ok(mut host) = TcpStream::connect(&self.host) else { return };
        let bytes = message.bytes();
        let _ = host.write_all(&bytes[..at.of(bytes.len())]);
        let _ = host.shutdown(Shutdown::Both);
    }
}

/// A request or a reply.
pub(crate) struct Message {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Message {
    pub(crate) fn read(reader: &mut impl BufRead) -> Option<Self> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok()).flatten()
        });
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body).ok()?;
        Some(Self { head, body })
    }

    fn bytes(&self) -> Vec<u8> {
        [self.head.as_bytes(), &self.body].concat()
    }
}
