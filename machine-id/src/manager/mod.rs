//! What keeps a machine ID, and with it the factories on.

mod driver;
mod machine;
mod notice;
mod options;
mod pacing;
mod sources;
mod words;

pub use driver::Manager;
pub use notice::{Notice, StartError};
pub use options::{Options, OptionsError};
pub(crate) use sources::Sources;
