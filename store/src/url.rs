//! Which store, and how: one text.

use std::time::Duration;

use crate::open::shapes;
use crate::{ErrorKind, StoreError, parse_duration};

/// A store's URL, taken apart but not yet understood by an engine: `sqlite:PATH?timeout=5s`.
///
/// The path ends at the first `?`; a `?` that belongs to it is written `%3F`, a `%` is written `%25`. Options are
/// separated by `&`; each is given once.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StoreUrl {
    /// The engine, as in `sqlite`.
    pub scheme: String,
    /// What stands between the scheme's colon and the `?`, decoded.
    pub path: String,
    /// Names and values behind the `?`, decoded, in the order written.
    pub options: Vec<(String, String)>,
}

impl StoreUrl {
    /// Takes a URL apart.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Configuration`] without a scheme, for an escape that is none, a NUL, bytes that are no UTF-8, an
    /// option without a value or given twice.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        let Some((scheme, rest)) = url.split_once(':') else {
            let meant = if is_path(url) { format!(": did you mean sqlite:{url}") } else { String::new() };
            return Err(wrong(format!(
                "a store's URL begins with its engine, {}; found {:?}{meant}",
                shapes(),
                shortened(url)
            )));
        };
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_lowercase())
            && scheme.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '+');
        if !is_scheme {
            let lower = scheme.to_ascii_lowercase();
            let meant = if lower == "sqlite" {
                format!(": did you mean {lower}:{rest}")
            } else if is_path(scheme) && !rest.contains('@') {
                format!(": did you mean sqlite:{url}")
            } else {
                String::new()
            };
            return Err(wrong(format!(
                "a store's URL begins with its engine, {}; found {:?} before the colon{meant}",
                shapes(),
                shortened(scheme)
            )));
        }
        let (path, options) = match rest.split_once('?') {
            Some((path, options)) => (path, Some(options)),
            None => (rest, None),
        };
        let (path, options) = (decode("path", path)?, query(options)?);
        Ok(Self { scheme: scheme.to_owned(), path, options })
    }
}

/// What stands behind a `?`: options in the order written, decoded. What may be a password is not shown.
pub(crate) fn query(text: Option<&str>) -> Result<Vec<(String, String)>, StoreError> {
    raw_options(text)?
        .into_iter()
        .map(|(name, raw)| option_value(&name, raw).map(|value| (name, value)))
        .collect()
}

/// A value as it was meant.
pub(crate) fn option_value(name: &str, raw: &str) -> Result<String, StoreError> {
    decode("value", raw).map_err(|_| {
        wrong(format!(
            "option {name}: a % is followed by two hexadecimal digits (%25 is a % itself), and decoded it is UTF-8 without NUL"
        ))
    })
}

/// The same, with values as they stand there.
pub(crate) fn raw_options(text: Option<&str>) -> Result<Vec<(String, &str)>, StoreError> {
    let mut options: Vec<(String, &str)> = Vec::new();
    for option in text.into_iter().flat_map(|text| text.split('&')) {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) if !name.is_empty() => (decode("option's name", name)?, value),
            _ if option.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') => {
                return Err(wrong(format!("an option is written name=value, found {option:?}")));
            }
            _ => return Err(wrong("an option is written name=value, found one without a name".to_owned())),
        };
        if options.iter().any(|(other, _)| *other == name) {
            return Err(wrong(format!("the option {name} is given twice")));
        }
        options.push((name, value));
    }
    Ok(options)
}

/// Whether it looks like the path of a file to which somebody forgot to add the engine.
fn is_path(text: &str) -> bool {
    let endings = [".db", ".sqlite", ".sqlite3"];
    // What has an @ in it is a server's, and may have a password.
    if text.len() > LONGEST || text.contains('@') {
        return false;
    }
    text.contains('/') || text.starts_with('.') || endings.iter().any(|ending| text.ends_with(ending))
}

/// No path is longer than this, nor is a name of an engine: it was another kind of text, and is not told whole.
const LONGEST: usize = 4096;

fn shortened(text: &str) -> String {
    const ENOUGH: usize = 40;
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(ENOUGH).chain(['…']).collect()
}

/// An error about the URL.
pub(crate) fn wrong(message: String) -> StoreError {
    StoreError::new(ErrorKind::Configuration, message)
}

pub(crate) fn unknown_scheme(scheme: &str) -> StoreError {
    wrong(format!("there is no store {scheme:?} here, expected {}", shapes()))
}

/// An option that the engine does not have, beside those that it has.
pub(crate) fn unknown_option<'a>(
    scheme: &str,
    name: &str,
    expected: impl IntoIterator<Item = &'a &'a str>,
) -> StoreError {
    let expected: Vec<&str> = expected.into_iter().copied().collect();
    wrong(format!("a {scheme} URL has no option {name:?}, expected one of {}", expected.join(", ")))
}

/// A length of time among the options.
pub(crate) fn span(name: &str, value: &str) -> Result<Duration, StoreError> {
    parse_duration(value).map_err(|error| wrong(format!("option {name}: {error}")))
}

/// A switch among the options.
pub(crate) fn flag(name: &str, value: &str) -> Result<bool, StoreError> {
    match value {
        "1" | "true" | "yes" => Ok(true),
        "0" | "false" | "no" => Ok(false),
        _ => Err(wrong(format!("option {name}: found {value:?}, expected 1 or 0"))),
    }
}

/// How many holds of each resource are remembered.
pub(crate) fn holds(value: &str) -> Result<Option<u32>, StoreError> {
    if value == "off" {
        return Ok(None);
    }
    match value.parse() {
        Ok(count) if count > 0 => Ok(Some(count)),
        _ => Err(wrong(format!(
            "option history: found {value:?}, expected `off` or a number from 1 to {}",
            u32::MAX
        ))),
    }
}

/// Percent-decoding (RFC 3986, 2.1); `+` is a plus sign.
pub(crate) fn decode(what: &str, text: &str) -> Result<String, StoreError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        match (digit(), digit()) {
            (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
            _ => {
                return Err(wrong(format!(
                    "a % in the {what} is followed by two hexadecimal digits (%25 is a % itself), found {text:?}"
                )));
            }
        }
    }
    if bytes.contains(&0) {
        return Err(wrong(format!("the {what} contains a NUL: {text:?}")));
    }
    String::from_utf8(bytes).map_err(|_| wrong(format!("the {what} is not UTF-8 when decoded: {text:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> (String, Vec<(String, String)>) {
        let url = StoreUrl::parse(url).unwrap();
        assert_eq!(url.scheme, "sqlite");
        (url.path, url.options)
    }

    #[test]
    fn paths_and_options_are_decoded() {
        assert_eq!(parse("sqlite:/var/lib/x.db"), ("/var/lib/x.db".to_owned(), vec![]));
        assert_eq!(parse("sqlite::memory:").0, ":memory:");
        assert_eq!(parse("sqlite:a%3Fb%25%20c#d+e").0, "a?b% c#d+e");
        assert_eq!(parse("sqlite:%C3%A9").0, "é");
        let options = parse("sqlite:x?timeout=5s&max%5Fttl=1%68").1;
        assert_eq!(options, [("timeout".into(), "5s".into()), ("max_ttl".into(), "1h".into())]);
        assert_eq!(parse("sqlite:x?a=b=c").1, [("a".into(), "b=c".into())]);
    }

    #[test]
    fn errors_say_what_was_found() {
        let cases = [
            ("", "found \"\""),
            ("rel.db", "did you mean sqlite:rel.db"),
            ("./rel.db", "did you mean sqlite:./rel.db"),
            ("/tmp/x.db", "did you mean sqlite:/tmp/x.db"),
            ("leases", "found \"leases\""),
            ("/tmp/a:b", "did you mean sqlite:/tmp/a:b"),
            (":x", "before the colon"),
            ("SQLite:x", "did you mean sqlite:x"),
            ("C:\\x", "found \"C\""),
            ("sqlite:x%", "%25"),
            ("sqlite:x%2", "%25"),
            ("sqlite:x%zz", "%25"),
            ("sqlite:x%00", "NUL"),
            ("sqlite:%FF", "UTF-8"),
            ("sqlite:x?", "name=value"),
            ("sqlite:x?timeout", "timeout"),
            ("sqlite:x?=5s", "name=value"),
            ("sqlite:x?a=1&a=2", "twice"),
        ];
        for (url, expected) in cases {
            let error = StoreUrl::parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration, "{url}");
            assert!(error.to_string().contains(expected), "{url}: {error}");
        }
        for long in ["x/".repeat(5_000), "\0:".repeat(5_000), "X".repeat(9_000) + ":"] {
            let error = StoreUrl::parse(&long).unwrap_err().to_string();
            assert!(error.len() < 500, "{error}");
        }
    }
}
