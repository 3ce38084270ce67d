//! One machine ID, set down somewhere.

use std::time::Duration;

use crate::{AcquireError, Acquired, CallOptions, LeaseHandle, Strategy};

/// Always this machine ID. Nobody looks whether another process has it, too: whoever writes the configuration does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fixed(pub u16);

impl Strategy for Fixed {
    fn acquire(&self, lease_duration: Duration, _options: &CallOptions) -> Result<Acquired, AcquireError> {
        Ok(Acquired::new(self.0, LeaseHandle::none(), lease_duration))
    }
}
