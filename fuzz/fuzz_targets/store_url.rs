//! No text makes `StoreUrl::parse` panic, and what it took apart can be put together again.

#![no_main]

use std::fmt::Write as _;

use lease_machines_store::{ErrorKind, StoreUrl};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match StoreUrl::parse(text) {
        Ok(url) => {
            assert!(text.starts_with(&format!("{}:", url.scheme)));
            for part in url.options.iter().flat_map(|(name, value)| [name, value]).chain([&url.path]) {
                assert!(!part.contains('\0'));
            }
            for (index, (name, _)) in url.options.iter().enumerate() {
                assert!(!name.is_empty());
                assert!(url.options[..index].iter().all(|(other, _)| other != name), "{name} is there twice");
            }
            assert_eq!(StoreUrl::parse(&write(&url)).expect("its own text"), url);
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Configuration),
    }
});

fn write(url: &StoreUrl) -> String {
    let mut text = format!("{}:{}", url.scheme, escape(&url.path));
    for (index, (name, value)) in url.options.iter().enumerate() {
        let separator = if index == 0 { '?' } else { '&' };
        let _ = write!(text, "{separator}{}={}", escape(name), escape(value));
    }
    text
}

/// Everything that could mean something is escaped.
fn escape(part: &str) -> String {
    part.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02x}");
        }
        text
    })
}
