//! The client for TCP and TLS: one provider, built-in roots, system settings ignored.

use super::dns::Names;
use crate::limits;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Certificate, Client, redirect};
use std::sync::Once;
use std::time::{Duration, SystemTime};

/// Why a client could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The certificate authority of the payload.
    #[error("the certificate authority is not valid PEM: {0}")]
    Authority(reqwest::Error),
    /// TLS or the resolver could not be set up.
    #[error("no HTTP client: {0}")]
    Build(reqwest::Error),
}

/// Does a client keep connections for later requests?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// Yes, for less time than a Node server does (5 s, PROTOCOL §4.1).
    Pooled,
    /// No. For what must not be repeated: on a kept connection that the server is closing, "not seen" and "seen, then
    /// closed" look the same.
    Fresh,
}

/// Makes a client that trusts the built-in roots and `authority`.
pub fn client(reuse: Reuse, authority: Option<&str>) -> Result<Client, ClientError> {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // Fails only when a provider is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    let mut roots: Vec<Certificate> =
        webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().filter_map(|der| Certificate::from_der(der).ok()).collect();
    if let Some(pem) = authority {
        roots.extend(Certificate::from_pem_bundle(pem.as_bytes()).map_err(ClientError::Authority)?);
    }
    let kept = match reuse {
        Reuse::Pooled => limits::HTTP_IDLE_CONNECTIONS,
        Reuse::Fresh => 0,
    };
    Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .tls_certs_only(roots)
        .connect_timeout(limits::CONNECT_TIMEOUT)
        .pool_idle_timeout(limits::HTTP_IDLE)
        .pool_max_idle_per_host(kept)
        .dns_resolver(Names::default())
        .http1_only()
        .build()
        .map_err(ClientError::Build)
}

/// `Retry-After` as a span, whether it was given in seconds or as a date.
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => Some(httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default()),
    }
}

/// How long to leave a busy host alone, after so many times: as long as it asks for, within reason.
pub fn pause(asked: Option<Duration>, times: u32) -> Duration {
    let usual = limits::HTTP_BUSY_PAUSE * 2u32.saturating_pow(times);
    let pause = asked.map_or(usual, |asked| asked.min(limits::HTTP_RETRY_AFTER_MAX));
    let (ms, asked) = (pause.as_millis() as u64, asked.map(|asked| asked.as_secs()));
    tracing::warn!(component = "http-ipc-client", ms, asked_seconds = asked, "host_busy");
    pause
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_to_come_again() {
        let now = httpdate::parse_http_date("Mon, 30 Nov 2026 03:00:00 GMT").unwrap();
        let told = |text: &str| {
            let headers = [(RETRY_AFTER, text.parse().unwrap())].into_iter().collect();
            retry_after(&headers, now).map(|span| span.as_secs())
        };
        assert_eq!(told(" 7 "), Some(7));
        assert_eq!(told("Mon, 30 Nov 2026 03:00:20 GMT"), Some(20));
        assert_eq!(told("Mon, 30 Nov 2026 02:00:00 GMT"), Some(0));
        for text in ["", "soon", "-1", "1.5", "2026-11-30"] {
            assert_eq!(told(text), None, "{text}");
        }
    }

    #[test]
    fn a_client_can_be_made() {
        client(Reuse::Pooled, None).unwrap();
        client(Reuse::Fresh, None).unwrap();
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----";
        assert!(client(Reuse::Fresh, Some(broken)).is_err());
    }
}
