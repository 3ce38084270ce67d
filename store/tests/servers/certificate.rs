//! A certificate of the tests' own.

use std::path::{Path, PathBuf};

use super::guard::Guarded;

/// Makes a key and a certificate for a host, by itself its own authority, in a server's folder.
pub fn make(folder: &Guarded, host: &str) -> (PathBuf, PathBuf) {
    let (key, certificate) = (folder.path().join("key"), folder.path().join("certificate"));
    let (subject, name) = (format!("/CN={host}"), format!("subjectAltName=DNS:{host}"));
    folder.run(
        Path::new("openssl"),
        &[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            &subject,
            "-addext",
            &name,
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-keyout",
            key.to_str().unwrap(),
            "-out",
            certificate.to_str().unwrap(),
        ],
    );
    (key, certificate)
}
