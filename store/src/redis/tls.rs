//! A connection behind TLS.

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

    use crate::ErrorKind;
    use crate::server::tls;
    use crate::url::wrong;

    let config = tls::verifying(None)?.with_no_client_auth();
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| wrong(format!("TLS: no certificate can be for the host {host:?}")))?;
    tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| {
        StoreError::new(ErrorKind::Unreachable, format!("TLS with {host}: {error}"))
            .nothing_changed()
            .with_source(error)
    })
}
