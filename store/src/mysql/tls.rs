//! TLS as the driver does it.

use mysql_async::SslOpts;

use super::options::Tls;
use crate::StoreError;

#[cfg(not(feature = "mysql-tls"))]
pub(super) fn of(tls: &Tls) -> Result<Option<SslOpts>, StoreError> {
    match tls {
        Tls::Off => Ok(None),
        Tls::Unverified | Tls::Verified(_) => Err(crate::url::wrong(
            "this program was built without TLS to MySQL servers (the cargo feature `mysql-tls`)".to_owned(),
        )),
    }
}

/// The driver asks for the provider of the whole process, and would choose one for all of it where there is none. That is for
/// the program to do.
#[cfg(feature = "mysql-tls")]
pub(super) fn of(tls: &Tls) -> Result<Option<SslOpts>, StoreError> {
    use crate::server::tls::authorities;

    let roots = match tls {
        Tls::Off => return Ok(None),
        Tls::Unverified => None,
        Tls::Verified(file) => Some(authorities(file.as_deref().map(|file| ("ssl_ca", file)))?),
    };
    if roots.as_ref().is_some_and(Vec::is_empty) {
        let message = "TLS: no authority was found to verify the server's certificate with; name a file of them by ssl_ca";
        return Err(crate::url::wrong(message.to_owned()));
    }
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        return Err(crate::url::wrong(
            "TLS to a MySQL server needs a provider that the program has installed: call \
             rustls::crypto::CryptoProvider::install_default first"
                .to_owned(),
        ));
    }
    Ok(Some(match roots {
        None => SslOpts::default().with_danger_accept_invalid_certs(true),
        Some(roots) => SslOpts::default()
            .with_disable_built_in_roots(true)
            .with_root_certs(roots.into_iter().map(|root| root.to_vec().into()).collect()),
    }))
}
