//! A resource name is exactly what its documentation says, and is kept as it was given.

#![no_main]

use lease_machines_store::{NameError, ResourceName};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match ResourceName::new(text) {
        Ok(name) => {
            assert!((1..=255).contains(&text.len()) && !text.contains('\0'));
            assert_eq!((name.as_str(), name.to_string().as_str()), (text, text));
            assert_eq!(text.parse(), Ok(name));
        }
        Err(error) => {
            match error {
                NameError::Empty => assert!(text.is_empty()),
                NameError::TooLong { bytes } => assert!(bytes == text.len() && bytes > 255),
                NameError::Nul { at } => assert_eq!(text.find('\0'), Some(at)),
                _ => {}
            }
            assert!(!error.to_string().is_empty());
        }
    }
});
