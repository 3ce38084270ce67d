//! Texts of others on this terminal.

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

/// Characters that are not shown, or turn others round: of the categories Cf, Zl and Zp, those that Unicode's report on
/// source code (UTS 55) warns of.
const fn misleads(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_acts_or_misleads_is_written_out() {
        assert_eq!(visible("jobs/höhe 日本 ✓ \\ '"), "jobs/höhe 日本 ✓ \\ '");
        assert_eq!(visible("a\nb\tc\x1b[2Jd\u{7f}\u{9b}"), "a\\nb\\tc\\u{1b}[2Jd\\u{7f}\\u{9b}");
        assert_eq!(
            visible("x\u{202e}txt\u{200b}\u{2028}\u{feff}"),
            "x\\u{202e}txt\\u{200b}\\u{2028}\\u{feff}"
        );
    }
}
