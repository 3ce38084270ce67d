//! What the stores on servers share: the thread on which their connections live, URLs with a login, TLS, and looking again
//! until a resource is free. What is said to a server, and what its answers mean, is each engine's own.

mod driver;
mod poll;
#[cfg(feature = "_tls")]
pub(crate) mod tls;
// An engine whose driver takes URLs apart itself does without.
#[cfg(feature = "redis")]
mod url;

pub(crate) use driver::Driver;
pub(crate) use poll::poll;
#[cfg(feature = "redis")]
pub(crate) use url::{Login, ServerUrl};
