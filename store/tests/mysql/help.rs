//! Short forms, and both kinds of server.

#[path = "../common/short.rs"]
mod short;

pub use short::{claim, claim_for, granted, lease};

/// The same test on a server of each kind.
macro_rules! on_both {
    ($($test:ident)*) => {
        mod mariadb {
            $(#[test] fn $test() { super::$test(crate::servers::mysql::Kind::MariaDb) })*
        }
        mod mysql {
            $(#[test] fn $test() { super::$test(crate::servers::mysql::Kind::MySql) })*
        }
    };
}
pub(crate) use on_both;
