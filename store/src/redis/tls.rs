//! TLS, by a provider of the store's own: none is installed for the process, and none needed.

use tokio::net::TcpStream;

use crate::StoreError;

#[cfg(not(feature = "redis-tls"))]
pub(super) async fn wrap(_: TcpStream, _: &str) -> Result<TcpStream, StoreError> {
    Err(crate::url::wrong(
        "this program was built without TLS for Redis (its cargo feature `redis-tls`)".to_owned(),
    ))
}

#[cfg(feature = "redis-tls")]
pub(super) async fn wrap(
    stream: TcpStream,
    host: &str,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, StoreError> {
    use std::sync::Arc;

    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore, crypto};

    use crate::ErrorKind;
    use crate::url::wrong;

    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(wrong(
            "TLS: no certificate authority was found on this machine; name a file of them in $SSL_CERT_FILE"
                .to_owned(),
        ));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(format!("TLS: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| wrong(format!("TLS: no certificate can be for the host {host:?}")))?;
    tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| {
        StoreError::new(ErrorKind::Unreachable, format!("TLS with {host}: {error}"))
            .nothing_changed()
            .with_source(error)
    })
}
