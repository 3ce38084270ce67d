//! `LeaseMachines::Store`

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lease_machines::{FencingToken, OwnerId};
use lease_machines_id::Lent;
use lease_machines_os::boot_time;
use lease_machines_store::{
    self as engine, Acquired, Claim, Ending, Epoch, ErrorKind, Grant, LeaseRef, Migration, Opening, Released,
    Renewed, ResourceName, Revoked, StoreError, Undecided, WorkResult, fresh_owner,
};
use magnus::{
    Error, RArray, RClass, RString, Ruby, Symbol, Value, function, method, prelude::*, typed_data::Obj,
};

use crate::answers::{self, Decided};
use crate::opened::{self, Live, Presence, Slot};
use crate::{errors, numbers, process, sqlite, time, wait};

/// A store, opened for this process. In a child that was forked it is opened once more.
#[magnus::wrap(class = "LeaseMachines::Store", free_immediately, size)]
pub(crate) struct Store(Arc<Slot>);

pub(crate) fn define(ruby: &Ruby, class: RClass) -> Result<(), Error> {
    class.undef_default_alloc_func();
    let singleton = class.singleton_class()?;
    singleton.define_private_method("_open", method!(open, 2))?;
    singleton.define_private_method("_migrate", method!(migrate, 1))?;
    singleton.define_private_method("_before_fork", method!(before_fork, 0))?;
    singleton.define_private_method("_close_files", method!(close_files, 0))?;
    singleton.define_private_method("_after_fork", method!(after_fork, 0))?;
    class.define_private_method("_claim", method!(claim, 8))?;
    class.define_private_method("_renew", method!(renew, 5))?;
    class.define_private_method("_release", method!(release, 5))?;
    class.define_private_method("_withdraw", method!(withdraw, 2))?;
    class.define_private_method("_revoke", method!(revoke, 3))?;
    class.define_private_method("_show", method!(show, 1))?;
    class.define_private_method("_list", method!(list, 1))?;
    class.define_private_method("_history", method!(history, 2))?;
    class.define_private_method("_prune", method!(prune, 1))?;
    class.define_private_method("_wait", method!(wait_until_free, 2))?;
    class.define_private_method("_doctor", method!(doctor, 0))?;
    class.define_private_method("_epoch", method!(epoch, 0))?;
    class.define_private_method("_open_epoch", method!(open_epoch, 3))?;
    class.define_private_method("_close", method!(close, 0))?;
    class.define_private_method("_engine", method!(engine_name, 0))?;
    let module = ruby.define_module("LeaseMachines")?;
    module.define_singleton_method("fresh_owner", function!(owner_for_one_hold, 0))?;
    module.define_singleton_method("now", function!(now, 0))
}

fn open(ruby: &Ruby, class: RClass, url: RString, create: bool) -> Result<Obj<Store>, Error> {
    let (url, presence) = (text(ruby, "url", url)?, begin(ruby)?);
    let (slot, live) = blocking(ruby, move || Slot::of(url, create, presence))?;
    slot.put(live);
    Ok(ruby.obj_wrap_as(Store(slot), class))
}

fn migrate(ruby: &Ruby, _: Value, url: RString) -> Result<Symbol, Error> {
    let url = text(ruby, "url", url)?;
    let presence = begin(ruby)?;
    let migrated = blocking(ruby, move || {
        let _presence = presence;
        sqlite::check(&url)?;
        engine::migrate(&url)
    });
    Ok(ruby.to_symbol(match migrated? {
        Migration::SetUp => "set_up",
        Migration::Upgraded => "upgraded",
        _ => "up_to_date",
    }))
}

#[expect(clippy::too_many_arguments, reason = "the wrapper's keywords, by position")]
fn claim(
    ruby: &Ruby,
    this: &Store,
    again: bool,
    resource: RString,
    owner: Value,
    ttl: Value,
    attempt: Value,
    epoch: Option<RString>,
    label: Option<RString>,
    identity: Option<RString>,
) -> Result<RArray, Error> {
    let drawn = owner.is_nil();
    let owner = if drawn { draw(ruby)? } else { numbers::owner(ruby, owner)? };
    let ttl = time::from_ruby(ruby, "ttl", ttl)?;
    let mut claim = Claim::new(name(ruby, resource)?, owner, ttl)
        .with_attempt(numbers::count(ruby, "attempt", attempt)?)
        .with_epoch(believed(ruby, epoch)?);
    claim.label = label.map(|label| text(ruby, "label", label)).transpose()?;
    claim.identity = identity.map(|identity| text(ruby, "identity", identity)).transpose()?;

    let store = this.store(ruby)?;
    // Nobody else knows an owner that was drawn here.
    let unheard =
        Unheard { store: Arc::clone(&store), resource: claim.resource.clone(), owner, ttl, armed: drawn };
    let sent = boot_time();
    let answer = wait::for_answer(ruby, async move {
        let store = store.store()?;
        if again { store.reacquire(claim).await } else { store.acquire(claim).await }
    })?;
    // What comes later than this is raised when Ruby has the decision, or is about to: then the lease ends with its ttl.
    ruby.thread_check_ints()?;
    let decided = answer.and_then(|answer| match answer {
        Acquired::Granted(grant) => Ok(Decided::Granted(owner, grant, deadline(sent, &grant)?)),
        Acquired::Rejected(rejected) => Ok(Decided::Rejected(rejected)),
        _ => Err(unexpected()),
    });
    unheard.told(&decided);
    answers::decided(ruby, decided)
}

fn renew(
    ruby: &Ruby,
    this: &Store,
    resource: RString,
    owner: Value,
    token: Value,
    ttl: Value,
    epoch: Option<RString>,
) -> Result<RArray, Error> {
    let Some(lease) = lease(ruby, resource, owner, token, epoch)? else { return answers::never_issued(ruby) };
    let ttl = time::from_ruby(ruby, "ttl", ttl)?;
    let (owner, sent) = (lease.owner, boot_time());
    let answer = this.ask(ruby, |store| async move { store.store()?.renew(lease, ttl).await })?;
    answers::decided(
        ruby,
        answer.and_then(|answer| match answer {
            Renewed::Renewed(grant) => Ok(Decided::Renewed(owner, grant, deadline(sent, &grant)?)),
            Renewed::Rejected(rejected) => Ok(Decided::Rejected(rejected)),
            _ => Err(unexpected()),
        }),
    )
}

fn release(
    ruby: &Ruby,
    this: &Store,
    resource: RString,
    owner: Value,
    token: Value,
    epoch: Option<RString>,
    result: Value,
) -> Result<RArray, Error> {
    let Some(lease) = lease(ruby, resource, owner, token, epoch)? else { return answers::never_issued(ruby) };
    let ending = Ending::new(work_result(ruby, result)?);
    let answer = this.ask(ruby, |store| async move { store.store()?.release(lease, ending).await })?;
    answers::decided(ruby, answer.and_then(released))
}

fn withdraw(ruby: &Ruby, this: &Store, resource: RString, owner: Value) -> Result<RArray, Error> {
    let (resource, owner) = (name(ruby, resource)?, numbers::owner(ruby, owner)?);
    let answer = this.ask(ruby, |store| async move { store.store()?.withdraw(resource, owner).await })?;
    answers::decided(ruby, answer.and_then(released))
}

/// The burnt token, or a rejection.
fn revoke(
    ruby: &Ruby,
    this: &Store,
    resource: RString,
    expect: Value,
    reason: Option<RString>,
) -> Result<Value, Error> {
    let resource = name(ruby, resource)?;
    let expect = if expect.is_nil() {
        None
    } else {
        match numbers::shown_token(ruby, "expect", expect)? {
            Some(token) => Some(token),
            None => return answers::never_issued(ruby).map(|array| array.as_value()),
        }
    };
    let reason = reason.map(|reason| text(ruby, "reason", reason)).transpose()?;
    let answer =
        this.ask(ruby, |store| async move { store.store()?.revoke(resource, expect, reason).await })?;
    match answer {
        Ok(Revoked::Burnt(token)) => Ok(ruby.integer_from_u64(token.value()).as_value()),
        Ok(Revoked::Rejected(rejected)) => {
            answers::decided(ruby, Ok(Decided::Rejected(rejected))).map(|array| array.as_value())
        }
        Ok(_) => Err(errors::store(ruby, &unexpected())),
        Err(error) => Err(errors::store(ruby, &error)),
    }
}

fn show(ruby: &Ruby, this: &Store, resource: RString) -> Result<RArray, Error> {
    let resource = name(ruby, resource)?;
    let found = this.answer(ruby, |store| async move { store.store()?.inspect(resource).await })?;
    answers::inspection(ruby, &found)
}

fn list(ruby: &Ruby, this: &Store, prefix: RString) -> Result<RArray, Error> {
    let prefix = text(ruby, "prefix", prefix)?;
    let found = this.answer(ruby, |store| async move { store.store()?.list(prefix).await })?;
    answers::each(ruby, &found, answers::inspection)
}

fn history(ruby: &Ruby, this: &Store, resource: RString, limit: Value) -> Result<RArray, Error> {
    let resource = name(ruby, resource)?;
    let limit = usize::try_from(numbers::count(ruby, "limit", limit)?).unwrap_or(usize::MAX);
    let found = this.answer(ruby, |store| async move { store.store()?.history(resource, limit).await })?;
    answers::each(ruby, &found, answers::history_entry)
}

fn prune(ruby: &Ruby, this: &Store, older_than: Value) -> Result<RArray, Error> {
    let older_than = time::from_ruby(ruby, "older_than", older_than)?;
    let pruned = this.answer(ruby, |store| async move { store.store()?.prune(older_than).await })?;
    Ok(answers::pruned(ruby, &pruned))
}

fn wait_until_free(ruby: &Ruby, this: &Store, resource: RString, limit: Value) -> Result<(), Error> {
    let (resource, limit) = (name(ruby, resource)?, time::from_ruby(ruby, "limit", limit)?);
    this.answer(ruby, |store| async move { store.store()?.wait(resource, limit).await })
}

fn doctor(ruby: &Ruby, this: &Store) -> Result<RArray, Error> {
    let found = this.answer(ruby, |store| async move { store.store()?.doctor().await })?;
    answers::each(ruby, &found, answers::finding)
}

fn epoch(ruby: &Ruby, this: &Store) -> Result<String, Error> {
    this.answer(ruby, |store| async move { store.store()?.epoch().await }).map(|epoch| epoch.to_string())
}

fn open_epoch(
    ruby: &Ruby,
    this: &Store,
    instead_of: RString,
    old_holders_are_dead: bool,
    above: Value,
) -> Result<String, Error> {
    let Some(instead_of) = believed(ruby, Some(instead_of))? else {
        return Err(errors::store(ruby, &unexpected()));
    };
    let mut opening =
        Opening::new(instead_of).with_tokens_above(numbers::optional_token(ruby, "above", above)?);
    if old_holders_are_dead {
        opening = opening.with_dead_holders();
    }
    this.answer(ruby, |store| async move { store.store()?.open_epoch(opening).await })
        .map(|epoch| epoch.to_string())
}

/// Waits until it is closed, unless a call of another thread is still going on.
fn close(ruby: &Ruby, this: &Store) -> Result<(), Error> {
    this.0.close();
    let Some(presence) = this.0.take() else { return Ok(()) };
    blocking(ruby, move || {
        opened::until_closed(&presence);
        Ok(())
    })
}

/// Says whether there are files to wait for.
fn before_fork(_: Value) -> bool {
    opened::before_fork()
}

fn close_files(ruby: &Ruby, _: Value) -> Result<(), Error> {
    blocking(ruby, || {
        opened::until_no_file();
        Ok(())
    })
}

fn after_fork(_: Value) {
    opened::after_fork();
}

fn engine_name(ruby: &Ruby, this: &Store) -> Result<&'static str, Error> {
    let store = this.store(ruby)?;
    store.store().map(|store| store.capabilities().engine).map_err(|error| errors::store(ruby, &error))
}

fn owner_for_one_hold(ruby: &Ruby) -> Result<u64, Error> {
    draw(ruby).map(OwnerId::value)
}

fn now() -> f64 {
    time::to_seconds(boot_time())
}

impl Store {
    /// That of this process, opened where there is none of it.
    fn store(&self, ruby: &Ruby) -> Result<Arc<Live>, Error> {
        if self.0.is_closed() {
            let message = "the store was closed; open it again";
            return Err(errors::store(ruby, &StoreError::new(ErrorKind::Configuration, message)));
        }
        if let Some(store) = self.0.get() {
            return Ok(store);
        }
        let (presence, slot) = (begin(ruby)?, Arc::clone(&self.0));
        let mine = blocking(ruby, move || slot.open(presence))?;
        Ok(self.0.put(mine))
    }

    /// For threads that are not Ruby's, one call at a time. A file is opened for each; anything else stays open.
    pub(crate) fn lender(
        &self,
        ruby: &Ruby,
    ) -> Result<impl Fn() -> Result<Lent, StoreError> + Send + Sync + 'static, Error> {
        let process = process::current().map_err(|error| errors::no_resources(ruby, &error))?;
        let live = self.store(ruby)?;
        let slot = Arc::clone(&self.0);
        let kept = (!live.has_file()).then_some(live);
        Ok(move || match &kept {
            Some(live) => Arc::clone(live).lend(),
            None => slot.open(Presence::begin_patiently(process))?.lend(),
        })
    }

    fn ask<T, F>(
        &self,
        ruby: &Ruby,
        question: impl FnOnce(Arc<Live>) -> F,
    ) -> Result<Result<T, StoreError>, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        wait::for_answer(ruby, question(self.store(ruby)?))
    }

    /// The same, where an error is nothing but raised.
    fn answer<T, F>(&self, ruby: &Ruby, question: impl FnOnce(Arc<Live>) -> F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        self.ask(ruby, question)?.map_err(|error| errors::store(ruby, &error))
    }
}

/// Begins what may use a file, once no fork stands in the way.
fn begin(ruby: &Ruby) -> Result<Presence, Error> {
    let process = process::current().map_err(|error| errors::no_resources(ruby, &error))?;
    let mut pauses = 0;
    loop {
        if let Some(presence) = Presence::begin(process, pauses) {
            return Ok(presence);
        }
        ruby.thread_sleep(opened::PAUSE)?;
        pauses += 1;
    }
}

/// Has it done by a thread that may block, and waits as for any answer.
fn blocking<T: Send + 'static>(
    ruby: &Ruby,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Error> {
    wait::for_work(ruby, work)?.map_err(|error| errors::store(ruby, &error))
}

/// A claim under an owner that nobody else knows. Unless its caller is told of the answer, whatever it may have been
/// granted is taken back: by a request of its own, for as long as the grant can last.
struct Unheard {
    store: Arc<Live>,
    resource: ResourceName,
    owner: OwnerId,
    ttl: Duration,
    armed: bool,
}

impl Unheard {
    /// An answer that was decided, or that shows that nothing was done, makes it needless.
    fn told(mut self, answer: &Result<Decided, StoreError>) {
        self.armed &= answer.as_ref().is_err_and(|error| error.undecided() == Undecided::Unknown);
    }
}

impl Drop for Unheard {
    fn drop(&mut self) {
        const PAUSE: Duration = Duration::from_secs(1);
        // In a child it is the parent's to take back.
        if !self.armed || !self.store.is_here() {
            return;
        }
        let (store, resource, owner) = (Arc::clone(&self.store), self.resource.clone(), self.owner);
        let until = boot_time().saturating_add(self.ttl);
        process::detach(async move {
            let Ok(store) = store.store() else { return };
            while let Err(error) = store.withdraw(resource.clone(), owner).await {
                if error.undecided() == Undecided::Refused || boot_time() >= until {
                    break;
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
    }
}

/// Until when a grant lasts at least, on this process's clock.
///
/// # Errors
///
/// *Unknown* where that has passed: nothing may be done under it.
fn deadline(sent: Duration, grant: &Grant) -> Result<Duration, StoreError> {
    let (until, now) = (sent.saturating_add(grant.ttl), boot_time());
    if now < until {
        return Ok(until);
    }
    let message = format!(
        "the answer came {:?} after it was asked for, and the lease that it grants lasts for {:?}: it may be over",
        now.saturating_sub(sent),
        grant.ttl
    );
    Err(StoreError::new(ErrorKind::Unreachable, message))
}

fn released(answer: Released) -> Result<Decided, StoreError> {
    match answer {
        Released::Released | Released::Retained(_) | Released::AlreadyReleased => Ok(Decided::Released),
        Released::Rejected(rejected) => Ok(Decided::Rejected(rejected)),
        _ => Err(unexpected()),
    }
}

/// The lease that is meant; `None` under token 0, which was never issued.
fn lease(
    ruby: &Ruby,
    resource: RString,
    owner: Value,
    token: Value,
    epoch: Option<RString>,
) -> Result<Option<LeaseRef>, Error> {
    let (resource, owner) = (name(ruby, resource)?, numbers::owner(ruby, owner)?);
    let token: Option<FencingToken> = numbers::shown_token(ruby, "token", token)?;
    let epoch = believed(ruby, epoch)?;
    Ok(token.map(|token| LeaseRef::new(resource, owner, token, epoch)))
}

fn draw(ruby: &Ruby) -> Result<OwnerId, Error> {
    fresh_owner().map_err(|error| errors::store(ruby, &error))
}

pub(crate) fn name(ruby: &Ruby, value: RString) -> Result<ResourceName, Error> {
    ResourceName::new(text(ruby, "the name of a resource", value)?)
        .map_err(|error| errors::argument(ruby, error.to_string()))
}

fn believed(ruby: &Ruby, epoch: Option<RString>) -> Result<Option<Epoch>, Error> {
    let Some(epoch) = epoch else { return Ok(None) };
    let epoch = text(ruby, "epoch", epoch)?;
    epoch.parse().map(Some).map_err(|error: engine::EpochError| errors::argument(ruby, error.to_string()))
}

fn work_result(ruby: &Ruby, value: Value) -> Result<WorkResult, Error> {
    if value.is_nil() {
        return Ok(WorkResult::Unknown);
    }
    let found = match Symbol::from_value(value) {
        Some(symbol) => symbol.name()?.into_owned(),
        None => return Err(errors::wrong_type(ruby, "result", ":good, :failed or nil", value)),
    };
    match found.as_str() {
        "good" => Ok(WorkResult::Good),
        "failed" => Ok(WorkResult::Failed),
        other => Err(errors::argument(
            ruby,
            format!("result must be :good, :failed or nil, not :{}", errors::shortened(other)),
        )),
    }
}

pub(crate) fn text(ruby: &Ruby, what: &str, value: RString) -> Result<String, Error> {
    let unusable =
        |_| errors::argument(ruby, format!("{what} must be UTF-8, or of an encoding that can become it"));
    value.to_string().map_err(unusable)
}

/// What only a newer store can answer.
fn unexpected() -> StoreError {
    StoreError::new(ErrorKind::Unsupported, "the store gave an answer that this library does not know")
        .outcome_unknown()
}
