//! HTTPS (DESIGN §4.13): the built-in roots, and the payload's certificate authority.

use ax_runner::link::{CallContext, CallError, HostLink, HttpLink};
use ax_runner::wire::Action;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

const AUTHORITY: &str = include_str!("../../../fixtures/tls/authority.pem");
const CERTIFICATE: &[u8] = include_bytes!("../../../fixtures/tls/host.pem");
/// Made for this test; it protects nothing.
const KEY: &[u8] = include_bytes!("../../../fixtures/tls/host.key");

/// Answers every connection's first request; returns the port.
async fn server() -> u16 {
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(CERTIFICATE).unwrap()],
            PrivateKeyDer::from_pem_slice(KEY).unwrap(),
        )
        .unwrap();
    let (acceptor, listener) =
        (TlsAcceptor::from(Arc::new(config)), TcpListener::bind(("127.0.0.1", 0)).await.unwrap());
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{\"ok\":true}").await;
                let _ = stream.shutdown().await;
            });
        }
    });
    port
}

#[test]
fn the_payloads_authority_is_trusted_and_no_other() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let port = server().await;
        let context = CallContext::default();
        for name in ["127.0.0.1", "localhost"] {
            let link = HttpLink::new(&format!("https://{name}:{port}"), Duration::from_secs(30)).unwrap();
            let refused = link.call(&Action::FetchWork {}, &context).await;
            assert!(
                matches!(&refused, Err(CallError::NotSent(text)) if text.to_lowercase().contains("certificate")),
                "{refused:?}"
            );
            // A broken one changes nothing, and is no reason to stop.
            link.trust("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
            link.trust(AUTHORITY);
            let reply = link.call(&Action::FetchWork {}, &context).await.unwrap();
            assert_eq!(reply.accepted(), Ok(()));
        }
        // Plain HTTP to a TLS port is an error with words, not a hang.
        let link = HttpLink::new(&format!("http://127.0.0.1:{port}"), Duration::from_secs(30)).unwrap();
        assert!(link.call(&Action::FetchWork {}, &context).await.is_err());
    });
}
