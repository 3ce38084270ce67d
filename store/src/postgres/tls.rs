//! TLS without a provider of the whole process: what else is in it may have another.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::options::PostgresOptions;
use crate::{ErrorKind, StoreError};

pub(super) fn connector(options: &PostgresOptions) -> Result<MakeRustlsConnect, StoreError> {
    let provider = Arc::new(ring::default_provider());
    let wrong = |message: String| StoreError::new(ErrorKind::Configuration, message);
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(format!("TLS cannot be set up: {error}")))?;
    let config = if options.verify {
        let mut roots = RootCertStore::empty();
        for certificate in authorities(options.root_cert.as_deref())? {
            // One that is damaged is no reason to do without the others.
            let _ = roots.add(certificate);
        }
        if roots.is_empty() {
            return Err(wrong("no authority was found to verify the server's certificate with".to_owned()));
        }
        builder.with_root_certificates(roots).with_no_client_auth()
    } else {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unverified(provider)))
            .with_no_client_auth()
    };
    Ok(MakeRustlsConnect::new(config))
}

fn authorities(file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let Some(path) = file else { return Ok(rustls_native_certs::load_native_certs().certs) };
    let wrong = |what: String| {
        let message = format!("sslrootcert {}: {what}; expected certificates in PEM", path.display());
        StoreError::new(ErrorKind::Configuration, message)
    };
    let pem = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>().map_err(|error| wrong(error.to_string()))
}

/// `sslmode=prefer` and `require` as everywhere with PostgreSQL: encrypted against whoever listens, with any certificate.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
