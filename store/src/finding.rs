//! What a store's doctor says.

/// One thing that was looked at, for [`Store::doctor`](crate::Store::doctor).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was looked at, in a word or two: `journal mode`.
    pub check: &'static str,
    /// What was found, and what was expected where that differs.
    pub found: String,
    /// How to mend it.
    pub mend: Option<String>,
}

impl Finding {
    /// Something as it should be.
    #[must_use]
    pub fn fine(check: &'static str, found: impl Into<String>) -> Self {
        Self { severity: Severity::Fine, check, found: found.into(), mend: None }
    }

    /// Something else.
    #[must_use]
    pub fn new(
        severity: Severity,
        check: &'static str,
        found: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self { severity, check, found: found.into(), mend: Some(mend.into()) }
    }
}

/// How bad a [`Finding`] is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Severity {
    /// As it should be.
    Fine,
    /// Worth knowing.
    Note,
    /// It works, but a promise is weaker, or may not hold for long.
    Warning,
    /// A promise does not hold.
    Error,
}
