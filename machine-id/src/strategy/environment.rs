//! The machine ID at the end of an environment variable: a StatefulSet's ordinal.

use std::env::VarError;
use std::time::Duration;

use crate::{AcquireError, Acquired, CallOptions, LeaseHandle, Strategy};

/// The digits after the last `-` of an environment variable, as in `web-12`, the name of a StatefulSet's pod. All that
/// follows the last `-` has to be digits. A Deployment's pod has a random suffix, which is an error and not an ID, even where it
/// begins or ends with digits; one of digits alone, rare as it is, cannot be told apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnvironmentVariable {
    name: String,
}

impl EnvironmentVariable {
    /// Reads this variable, each time that an ID is asked for.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }

    /// The machine ID in what the variable of this name holds, or in nothing: for callers that read it themselves. While a thread
    /// may change the environment no other can read it safely.
    ///
    /// # Errors
    ///
    /// [`AcquireError::Misconfigured`].
    pub fn machine_id(name: &str, value: Option<&str>) -> Result<u16, AcquireError> {
        let Some(value) = value else {
            return Err(AcquireError::Misconfigured(format!("the environment variable {name} is not set")));
        };
        let expected = |what: &str| {
            AcquireError::Misconfigured(format!("{name} is {value:?}, expected {what} after its last '-'"))
        };
        let ordinal = value.rsplit_once('-').map(|(_, ordinal)| ordinal);
        let digits =
            |ordinal: &&str| !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit());
        let ordinal = ordinal.filter(digits).ok_or_else(|| expected("digits, as in web-12,"))?;
        ordinal.parse().map_err(|_| expected("a number of at most 65535"))
    }
}

impl Strategy for EnvironmentVariable {
    fn acquire(&self, lease_duration: Duration, _options: &CallOptions) -> Result<Acquired, AcquireError> {
        let name = &self.name;
        // Not every name can be asked for: std panics where it is empty, or has a '=' or a NUL in it.
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(AcquireError::Misconfigured(format!(
                "{name:?} is no name of an environment variable"
            )));
        }
        let value = match std::env::var(name) {
            Ok(value) => Some(value),
            Err(VarError::NotPresent) => None,
            Err(VarError::NotUnicode(_)) => {
                let why = format!("the environment variable {name} is not UTF-8");
                return Err(AcquireError::Misconfigured(why));
            }
        };
        let machine_id = Self::machine_id(name, value.as_deref())?;
        Ok(Acquired::new(machine_id, LeaseHandle::none(), lease_duration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Result<u16, AcquireError> {
        EnvironmentVariable::machine_id("POD_NAME", Some(value))
    }

    #[test]
    fn the_ordinal_of_a_stateful_set() {
        assert_eq!(read("web-0"), Ok(0));
        assert_eq!(read("my-web-12"), Ok(12));
        assert_eq!(read("web-65535"), Ok(65_535));
        assert_eq!(read("web-007"), Ok(7));
    }

    /// zitadel#9075, #10484; mybatis-plus#6055: what only looked like an ID was taken for one, on several machines.
    #[test]
    fn the_suffix_of_a_deployment_is_no_id() {
        for name in [
            "web-7d4f9c6b5-x2x9q",
            "web-12a",
            "web-a12",
            "web-",
            "web",
            "12",
            "",
            "web-1.2",
            "web--",
            "web- 1",
            "web-+1",
            "web-١",
        ] {
            let why = read(name).expect_err(name).to_string();
            assert!(why.contains(name) && why.contains("POD_NAME"), "{why}");
        }
        assert!(read("web-65536").is_err());
        assert!(
            EnvironmentVariable::machine_id("X", None).is_err_and(|why| why.to_string().contains("not set"))
        );
    }

    #[test]
    fn a_variable_that_is_missing_or_cannot_be_named_is_an_error() {
        let options = CallOptions::new(Duration::from_secs(1));
        for name in ["LEASE_MACHINES_IS_NEVER_SET", "", "A=B", "A\0B"] {
            let answer = EnvironmentVariable::new(name).acquire(Duration::from_secs(30), &options);
            assert!(matches!(answer, Err(AcquireError::Misconfigured(_))), "{name:?}");
        }
    }
}
