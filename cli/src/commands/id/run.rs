//! `lease id run`: its options. What it does is `lease run`'s.

use clap::Args;

use super::pool::PoolOptions;
use crate::run::RunArgs;

/// Run a command while holding a machine ID
///
/// The command finds it in $MACHINE_ID, and its fencing token in $MACHINE_ID_TOKEN. It is renewed, and the command made to
/// end before it is another's, as `lease run` does. $LEASE_RESOURCE names the slot as a fence knows it: POOL#NUMBER. Exit 78
/// where this machine's clock is more than 10s from the store's.
#[derive(Args, Debug)]
#[command(
    mut_arg("resource", |pool| pool.value_name("POOL").help("Which pool: any name of 1 to 249 bytes of UTF-8")),
    // A changed argument comes last: it has to stand before the command again.
    mut_arg("command", |command| command),
    mut_arg("no_wait", |no_wait| no_wait.help("Do not wait where every slot is held; a store that does not answer is asked again for up to 30s")),
    mut_arg("skip_if_held", |skip| skip.help("Do not wait, and exit with 0 where every slot is held")),
    mut_arg("conflict_exit_code", |code| code.help("Exit with this code instead of 75 where every slot is held")),
    mut_arg("at_least", |at_least| at_least.hide(true)),
    mut_arg("once", |once| once.hide(true))
)]
pub(crate) struct Run {
    #[command(flatten)]
    run: RunArgs,

    #[command(flatten)]
    slots: PoolOptions,
}

impl Run {
    /// The options of `lease run`, for a slot.
    pub(crate) fn as_run(&self) -> RunArgs {
        RunArgs { slots: Some(self.slots.clone()), ..self.run.clone() }
    }
}
