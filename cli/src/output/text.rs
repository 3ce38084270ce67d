//! Texts of others on this terminal.

use std::borrow::Cow;

/// The text with everything that could act on a terminal, or mislead its reader, written out.
///
/// Names and labels are any UTF-8, given by whoever held the lease. Escape sequences would move the cursor or set the
/// title, line breaks forge rows, and direction marks show a name as another.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => shown.extend(c.escape_default()),
            c if c.is_control() || misleads(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// The text without the passwords of the URLs in it: an error may quote a store's URL that stood in the wrong place.
pub(crate) fn without_passwords(text: &str) -> Cow<'_, str> {
    const HIDDEN: &str = "***";
    let ends = |c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`');
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let url = after.get(..after.find(ends).unwrap_or(after.len())).unwrap_or(after);
        shown.push_str(before);
        shown.push_str("://");
        // The last @: a password may contain one.
        let hidden = url.rsplit_once('@').and_then(|(user, host)| Some((user.split_once(':')?.0, host)));
        match hidden {
            Some((user, host)) => shown.extend([user, ":", HIDDEN, "@", host]),
            None => shown.push_str(url),
        }
        rest = after.get(url.len()..).unwrap_or_default();
    }
    if shown.is_empty() {
        return Cow::Borrowed(text);
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// Characters that are not shown, or turn others round: of the categories Cf, Zl and Zp, those that Unicode's report on
/// source code (UTS 55) warns of. And the two that are no characters, and that no XML may contain.
const fn misleads(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_acts_or_misleads_is_written_out() {
        assert_eq!(visible("jobs/höhe 日本 ✓ \\ '"), "jobs/höhe 日本 ✓ \\ '");
        assert_eq!(visible("a\nb\tc\x1b[2Jd\u{7f}\u{9b}"), "a\\nb\\tc\\u{1b}[2Jd\\u{7f}\\u{9b}");
        assert_eq!(
            visible("x\u{202e}txt\u{200b}\u{2028}\u{feff}\u{fffe}\u{ffff}"),
            "x\\u{202e}txt\\u{200b}\\u{2028}\\u{feff}\\u{fffe}\\u{ffff}"
        );
    }

    #[test]
    fn passwords_are_hidden_and_nothing_else() {
        for (text, shown) in [
            ("no URL: a:b@c", "no URL: a:b@c"),
            ("found 'pg://u:p@h/db' and pg://v:q@i.", "found 'pg://u:***@h/db' and pg://v:***@i."),
            ("pg://u:a@b:c@host", "pg://u:***@host"),
            ("pg://:secret@h", "pg://:***@h"),
            ("pg://user@h sqlite:///x:y z@a", "pg://user@h sqlite:///x:y z@a"),
            ("etcd://a,b,c://", "etcd://a,b,c://"),
        ] {
            assert_eq!(without_passwords(text), shown);
        }
    }
}
