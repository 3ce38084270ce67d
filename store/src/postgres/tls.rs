//! TLS as everywhere with PostgreSQL: a certificate is verified only where that is asked for.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::options::PostgresOptions;
use crate::StoreError;
use crate::server::tls;

pub(super) fn connector(options: &PostgresOptions) -> Result<MakeRustlsConnect, StoreError> {
    let config = if options.verify {
        tls::verifying(options.root_cert.as_deref().map(|file| ("sslrootcert", file)))?
    } else {
        let provider = tls::provider();
        let verifier = Arc::new(Unverified(Arc::clone(&provider)));
        tls::builder(provider)?.dangerous().with_custom_certificate_verifier(verifier)
    };
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
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
