//! TLS by a provider of the store's own: none is installed for the process, and none needed. What else is in it may have
//! another.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};

use crate::StoreError;
use crate::url::wrong;

#[cfg(any(feature = "postgres", feature = "redis-tls"))]
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

#[cfg(any(feature = "postgres", feature = "redis-tls"))]
pub(crate) fn builder(
    provider: Arc<CryptoProvider>,
) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, StoreError> {
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(format!("TLS cannot be set up: {error}")))
}

/// A client that verifies the server's certificate and its name: by the authorities in a file, named by the option that it
/// comes from, or by the machine's.
///
/// # Errors
///
/// [`Configuration`](crate::ErrorKind::Configuration) where no authority is to be had.
#[cfg(any(feature = "postgres", feature = "redis-tls"))]
pub(crate) fn verifying(
    file: Option<(&str, &Path)>,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, StoreError> {
    let mut roots = RootCertStore::empty();
    // One that is damaged is no reason to do without the others.
    roots.add_parsable_certificates(authorities(file)?);
    if roots.is_empty() {
        return Err(wrong(
            "TLS: no authority was found to verify the server's certificate with; name a file of them in $SSL_CERT_FILE"
                .to_owned(),
        ));
    }
    Ok(builder(provider())?.with_root_certificates(roots))
}

pub(crate) fn authorities(file: Option<(&str, &Path)>) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let Some((option, path)) = file else { return Ok(rustls_native_certs::load_native_certs().certs) };
    let unusable =
        |what: String| wrong(format!("{option} {}: {what}; expected certificates in PEM", path.display()));
    let pem = fs::read(path).map_err(|error| unusable(error.to_string()))?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(error.to_string()))?;
    if found.is_empty() {
        return Err(unusable("there is none in it".to_owned()));
    }
    Ok(found)
}
