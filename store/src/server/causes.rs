//! What the errors of drivers say.

use std::error::Error;

/// A text, and the causes behind it that say more, in one line.
pub(crate) fn with_causes(mut text: String, mut cause: Option<&(dyn Error + 'static)>) -> String {
    while let Some(error) = cause {
        let told = error.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        cause = error.source();
    }
    text
}
