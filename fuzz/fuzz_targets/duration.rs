//! No text makes `parse_duration` panic, and what it read means the same when it is written in milliseconds.

#![no_main]

use lease_machines_store::parse_duration;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match parse_duration(text) {
        Ok(duration) => {
            assert!(text.starts_with(|c: char| c.is_ascii_digit()));
            assert_eq!(parse_duration(&format!("{}ms", duration.as_millis())), Ok(duration));
        }
        Err(error) => assert!(error.to_string().contains("; expected a number")),
    }
});
