//! The machine ID that a list gives to a host.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{AcquireError, Acquired, CallOptions, LeaseHandle, Strategy};

/// The machine ID that an explicit list gives to one of this host's identifiers: its host name, its full name, its
/// addresses, whatever the caller says that it is called.
///
/// Nothing is derived: who is not on the list gets an error. As the list names the numbers, adding a host moves nobody.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostIdentifiers {
    own: Vec<String>,
    ids: BTreeMap<String, u16>,
}

impl HostIdentifiers {
    /// `own` are the identifiers of this host, `ids` the list of *identity → ID*. Both are compared without regard to ASCII
    /// case and to a dot at the end, as host names are.
    ///
    /// # Errors
    ///
    /// [`AcquireError::Misconfigured`] where the list has an identity twice, or an ID for two identities.
    pub fn new<O, L, S>(own: O, ids: L) -> Result<Self, AcquireError>
    where
        O: IntoIterator<Item = S>,
        L: IntoIterator<Item = (S, u16)>,
        S: AsRef<str>,
    {
        let mut list = BTreeMap::new();
        for (identity, id) in ids {
            let identity = canonical(identity.as_ref());
            if let Some((other, _)) = list.iter().find(|(_, other)| **other == id) {
                let why = format!("{other:?} and {identity:?} both have the machine ID {id}");
                return Err(AcquireError::Misconfigured(why));
            }
            if list.insert(identity.clone(), id).is_some() {
                let why = format!("{identity:?} is on the list twice");
                return Err(AcquireError::Misconfigured(why));
            }
        }
        let own = own.into_iter().map(|identity| canonical(identity.as_ref())).collect();
        Ok(Self { own, ids: list })
    }
}

fn canonical(identity: &str) -> String {
    identity.strip_suffix('.').unwrap_or(identity).to_ascii_lowercase()
}

impl Strategy for HostIdentifiers {
    fn acquire(&self, lease_duration: Duration, _options: &CallOptions) -> Result<Acquired, AcquireError> {
        let found: BTreeMap<u16, &String> =
            self.own.iter().filter_map(|own| self.ids.get(own).map(|id| (*id, own))).collect();
        let mut found = found.into_iter();
        match (found.next(), found.next()) {
            (Some((id, _)), None) => Ok(Acquired::new(id, LeaseHandle::none(), lease_duration)),
            (Some((one, own)), Some((other, also))) => {
                let why =
                    format!("this host is {own:?} with the machine ID {one}, and {also:?} with {other}");
                Err(AcquireError::Misconfigured(why))
            }
            (None, _) => {
                let why = format!("none of {:?} is on the list", self.own);
                Err(AcquireError::Misconfigured(why))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: [(&str, u16); 3] = [("db1.example.org", 1), ("10.0.0.2", 2), ("db3", 3)];

    fn ask(own: &[&str]) -> Result<u16, AcquireError> {
        let strategy = HostIdentifiers::new(own.to_vec(), LIST)?;
        let options = CallOptions::new(Duration::from_secs(1));
        strategy.acquire(Duration::from_secs(30), &options).map(|acquired| acquired.machine_id)
    }

    #[test]
    fn a_host_has_the_id_that_the_list_gives_it() {
        assert_eq!(ask(&["db1", "DB1.Example.org.", "10.0.0.1"]), Ok(1));
        assert_eq!(ask(&["db2", "10.0.0.2"]), Ok(2));
        assert_eq!(ask(&["db3", "db3"]), Ok(3));
    }

    /// zitadel#9075, #10484; mybatis-plus#6055: IDs that were derived from addresses were equal.
    #[test]
    fn nothing_is_derived_and_who_is_not_on_the_list_gets_an_error() {
        for own in [&["db4", "10.0.0.4"][..], &["10.0.0.20"], &["db"], &[]] {
            assert!(matches!(ask(own), Err(AcquireError::Misconfigured(_))), "{own:?}");
        }
        assert!(matches!(ask(&["db3", "10.0.0.2"]), Err(AcquireError::Misconfigured(_))), "two at once");
    }

    #[test]
    fn a_list_that_contradicts_itself_is_refused() {
        let twice = HostIdentifiers::new(["a"], [("a", 1), ("A", 2)]);
        assert!(matches!(twice, Err(AcquireError::Misconfigured(why)) if why.contains("twice")));
        let shared = HostIdentifiers::new(["a"], [("a", 1), ("b", 1)]);
        assert!(matches!(shared, Err(AcquireError::Misconfigured(why)) if why.contains("both")));
    }
}
