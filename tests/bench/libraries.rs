//! Calls each library once, as the runner does, and does nothing with it: what they take of a static binary, the C library
//! and the standard library included. `tests/bench/size` builds it; it is not for running.

use bytes::Bytes;
use futures_util::StreamExt;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use http_body_util::{BodyExt, Full};
use std::convert::Infallible;
use std::error::Error;
use std::fs::File;
use std::time::Duration;
use tokio::io::AsyncWriteExt;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

struct Lines(Vec<u8>);

impl Sink for Lines {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, line: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.0.extend_from_slice(line.bytes());
        Ok(true)
    }
}

fn search(pattern: &str, path: &str) -> Outcome<Vec<u8>> {
    let matcher = grep_regex::RegexMatcherBuilder::new().line_terminator(Some(b'\n')).build(pattern)?;
    let mut lines = Lines(Vec::new());
    SearcherBuilder::new().binary_detection(BinaryDetection::quit(0)).multi_line(true).build().search_file(
        &matcher,
        &File::open(path)?,
        &mut lines,
    )?;
    let glob = globset::GlobBuilder::new(pattern).literal_separator(true).build()?.compile_matcher();
    let mut rules = ignore::gitignore::GitignoreBuilder::new(path);
    rules.add_line(None, pattern)?;
    if glob.is_match(path) || rules.build()?.matched(path, false).is_ignore() {
        lines.0.clear();
    }
    Ok(lines.0)
}

fn read(text: &str) -> Outcome<Vec<String>> {
    let table: toml::Table = toml::from_str(text)?;
    let value: serde_json::Value = serde_json::from_str(text)?;
    let mut read = vec![table.len().to_string(), serde_json::to_string(&value)?, serde_saphyr::to_string(&value)?];
    for event in granit_parser::Parser::new_from_str(text) {
        read.push(format!("{:?}", event.map_err(|error| error.to_string())?));
    }
    Ok(read)
}

async fn http(host: &str) -> Outcome<Bytes> {
    rustls::crypto::ring::default_provider().install_default().map_err(|_| "two providers")?;
    let roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(|der| reqwest::Certificate::from_der(der));
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only(roots.collect::<Result<Vec<_>, _>>()?)
        .http1_only()
        .build()?;
    let addresses: Vec<_> =
        hickory_resolver::TokioResolver::builder_tokio()?.build()?.lookup_ip(host).await?.iter().collect();
    let reply = client.post(host).bearer_auth(host).body(format!("{addresses:?}")).send().await?.bytes().await?;
    let unix = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new());
    let request = hyper::Request::post(hyperlocal::Uri::new(host, "/")).body(Full::new(reply))?;
    let reply = unix.build(hyperlocal::UnixConnector).request(request).await?;
    Ok(reply.into_body().collect().await?.to_bytes())
}

async fn socket(path: &str) -> Outcome<()> {
    let stream = tokio::net::UnixStream::connect(path).await?;
    let mut frames = tokio_util::codec::Framed::new(stream, tokio_util::codec::LengthDelimitedCodec::new());
    frames.get_mut().write_all(path.as_bytes()).await?;
    let frame = tokio::time::timeout(Duration::from_secs(1), frames.next()).await?;
    tracing::info!(came = frame.is_some(), "frame");
    tokio::process::Command::new(path).output().await?;
    let mut ended = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let path = path.to_owned();
    tokio::select! {
        _ = ended.recv() => {}
        found = tokio::task::spawn_blocking(move || search(&path, &path)) => { found??; }
    }
    let (stream, _) = tokio::net::UnixListener::bind("socket")?.accept().await?;
    let answer = |_| async { Ok::<_, Infallible>(hyper::Response::new(Full::new(Bytes::new()))) };
    let wire = hyper_util::rt::TokioIo::new(stream);
    hyper::server::conn::http1::Builder::new().serve_connection(wire, hyper::service::service_fn(answer)).await?;
    Ok(())
}

fn system(path: &str) -> Outcome<String> {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    let (rest, matched) = (SeccompAction::Allow, SeccompAction::Errno(1));
    let filter = SeccompFilter::new(Default::default(), rest, matched, std::env::consts::ARCH.try_into()?)?;
    seccompiler::apply_filter(&BpfProgram::try_from(filter)?)?;
    nix::mount::umount(path)?;
    let zone = tz::TimeZone::local()?;
    let file = tempfile::NamedTempFile::new()?;
    let (_, guard) = tracing_appender::non_blocking(file);
    drop(guard);
    Ok(format!(
        "{:?} {:?} {}",
        path_clean::clean(path),
        url::Url::parse(path)?,
        zone.find_current_local_time_type()?.ut_offset()
    ))
}

fn main() -> Outcome<()> {
    let Some(path) = std::env::args().nth(1) else { return Ok(()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    system(&path)?;
    read(&path)?;
    runtime.block_on(async {
        http(&path).await?;
        socket(&path).await
    })
}
