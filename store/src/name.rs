//! What a lease is on.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The name of a resource: any UTF-8 from 1 to 255 bytes without NUL, compared byte by byte.
///
/// Nothing is folded, trimmed, cut or normalized: `a`, `A`, `a ` and the two spellings of `é` are five resources.
/// Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceName(Arc<str>);

impl ResourceName {
    /// The longest name in bytes.
    pub const MAX_BYTES: usize = 255;

    /// Checks a name.
    ///
    /// # Errors
    ///
    /// [`NameError`] where it is empty, longer than 255 bytes, or contains NUL. Nothing is sent anywhere.
    pub fn new(name: impl AsRef<str>) -> Result<Self, NameError> {
        let name = name.as_ref();
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        if name.len() > Self::MAX_BYTES {
            return Err(NameError::TooLong { bytes: name.len() });
        }
        if let Some(at) = name.bytes().position(|byte| byte == 0) {
            return Err(NameError::Nul { at });
        }
        Ok(Self(Arc::from(name)))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ResourceName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl Borrow<str> for ResourceName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The first name, in the order of bytes, behind all that begin with `prefix`: UTF-8 has no byte of 255. `None` where all
/// begin so.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn beyond(prefix: &str) -> Option<Vec<u8>> {
    let mut bytes = prefix.as_bytes().to_vec();
    let last = bytes.last_mut()?;
    *last = last.saturating_add(1);
    Some(bytes)
}

/// Why a text is no resource name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NameError {
    /// It has no characters.
    Empty,
    /// It has more than [`ResourceName::MAX_BYTES`] bytes.
    TooLong {
        /// How many.
        bytes: usize,
    },
    /// It contains a NUL.
    Nul {
        /// At which byte, counted from 0.
        at: usize,
    },
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a resource name has 1 to 255 bytes of UTF-8 without NUL, found ")?;
        match self {
            Self::Empty => f.write_str("an empty one"),
            Self::TooLong { bytes } => write!(f, "{bytes} bytes"),
            Self::Nul { at } => write!(f, "a NUL at byte {at}"),
        }
    }
}

impl std::error::Error for NameError {}
