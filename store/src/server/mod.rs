//! What the stores on servers share: the thread on which their connections live, what a new connection needs, URLs with a login,
//! TLS, and looking again until a resource is free. What is said to a server, and what its answers mean, is each engine's own.

#[cfg(any(feature = "postgres", feature = "mysql", feature = "etcd"))]
mod causes;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod claims;
mod connecting;
mod driver;
#[cfg(any(feature = "postgres", feature = "redis", feature = "etcd"))]
mod each;
#[cfg(any(feature = "redis", feature = "etcd"))]
mod epochs;
mod findings;
mod here;
mod poll;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod pool;
#[cfg(feature = "_tls")]
pub(crate) mod tls;
// An engine whose driver takes URLs apart itself does without.
#[cfg(any(feature = "redis", feature = "mysql", feature = "etcd"))]
mod url;

#[cfg(any(feature = "postgres", feature = "mysql", feature = "etcd"))]
pub(crate) use causes::with_causes;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) use claims::{ONE_SLOT_AN_OWNER, claim, not_granted};
pub(crate) use connecting::{CONNECT_TIMEOUT, Passwords, check_connect_timeout};
pub(crate) use driver::Driver;
#[cfg(any(feature = "postgres", feature = "redis", feature = "etcd"))]
pub(crate) use each::each;
#[cfg(any(feature = "redis", feature = "etcd"))]
pub(crate) use epochs::Epochs;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis"))]
pub(crate) use findings::rights;
pub(crate) use findings::with_epoch;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) use findings::{clock, wall_millis};
pub(crate) use here::Here;
pub(crate) use poll::poll;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) use pool::{Pool, Taken};
#[cfg(any(feature = "redis", feature = "mysql", feature = "etcd"))]
pub(crate) use url::ServerUrl;
#[cfg(any(feature = "redis", feature = "etcd"))]
pub(crate) use url::{Login, check_namespace};
