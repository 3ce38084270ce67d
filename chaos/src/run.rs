//! One run over one engine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use lease_machines_store::{Answer, ResourceName, Store, Undecided};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::check::{Violation, check};
use crate::crew::{ALONE, Apart, EACH, PROCESSES, SHARING, Scene};
use crate::engine::{Engine, REMEMBERED, start};
use crate::faults::{Faults, first_of};
use crate::history::{History, Hold, Line, now};
use crate::proxy::Proxy;
use crate::random::Random;
use crate::record::{Counts, Recorder};
use crate::second;

/// What a call may take beyond its time-out, beside what this process itself was late by.
const BOUND: u64 = 3_000_000_000;

pub(crate) struct Report {
    pub(crate) engine: String,
    pub(crate) version: String,
    pub(crate) seed: u64,
    /// For how long it was to run, and did with all that comes before and after.
    pub(crate) asked: Duration,
    pub(crate) took: Duration,
    pub(crate) clients: u32,
    pub(crate) resources: usize,
    pub(crate) counts: Counts,
    pub(crate) violations: Vec<Violation>,
    /// Where the history is, if it was kept.
    pub(crate) kept: Option<PathBuf>,
}

/// Runs clients and faults for so long, and checks what was seen.
pub(crate) fn run(
    engine: &str,
    seed: u64,
    length: Duration,
    folder: &Path,
    progress: &(dyn Fn(&str, &Counts) + Sync),
) -> Result<Report, String> {
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    let _inside = runtime.enter();
    let recorder = Recorder::in_memory();
    let target = start_engine(&runtime, engine, Random::new(seed, 1), &recorder)?;
    let timeout =
        lease_machines_store::parse_duration(crate::engine::TIMEOUT).map_err(|error| error.to_string())?;
    let plain = second_url(&*target, &target.plain_url());
    lease_machines_store::migrate(&plain).map_err(|error| error.to_string())?;
    let begun = Instant::now();
    let late = watch_lateness(&runtime);
    clients_and_faults(&runtime, &*target, engine, seed, length, &recorder, progress)?;
    recorder.line(Line::Limits {
        engine: engine.to_owned(),
        seed,
        timeout: u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX),
        bound: BOUND + late.load(Ordering::SeqCst),
        dense: target.is_dense(),
        takes_back: target.takes_back(),
        remembers_times: target.remembers_times(),
        ends_by_leases: target.ends_by_leases(),
    });
    // Whatever is still on its way arrives.
    while !target.proxies().iter().all(Proxy::is_empty) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut lines = recorder.take();
    let names: BTreeSet<String> = lines
        .iter()
        .filter_map(|line| match line {
            Line::Call(call) => Some(call.resource.clone()),
            _ => None,
        })
        .collect();
    let resources = names.len();
    lines.extend(runtime.block_on(look_back(&*target, names))?);
    let counts = recorder.counts();
    let written = runtime.block_on(target.written())?;
    let counts = Counts { written: written.len() as u64, ..counts };
    lines.extend(written.into_iter().map(Line::Written));
    let history = History { lines };
    let violations = check(&history);
    let kept = if violations.is_empty() {
        None
    } else {
        let path = folder.join(format!("{engine}-{seed}.jsonl"));
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        history.write(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Some(path)
    };
    let report = Report {
        engine: engine.to_owned(),
        version: target.version(),
        seed,
        asked: length,
        took: begun.elapsed(),
        clients: SHARING + ALONE + PROCESSES * EACH + second::CLIENTS,
        resources,
        counts,
        violations,
        kept,
    };
    end_engine(&runtime, target)?;
    Ok(report)
}

/// What an engine does when it starts and ends blocks.
pub(crate) fn start_engine(
    runtime: &Runtime,
    engine: &str,
    random: Random,
    recorder: &Recorder,
) -> Result<Arc<dyn Engine>, String> {
    let (engine, recorder) = (engine.to_owned(), recorder.clone());
    let starting = runtime.spawn_blocking(move || start(&engine, random, &recorder));
    runtime.block_on(starting).map_err(|error| error.to_string())?.map(Arc::from)
}

pub(crate) fn end_engine(runtime: &Runtime, target: Arc<dyn Engine>) -> Result<(), String> {
    let ending = runtime.spawn_blocking(move || drop(target));
    runtime.block_on(ending).map_err(|error| error.to_string())
}

/// By how much a task of this process was woken too late, at most: a machine that is busy with other things keeps a client
/// waiting for what has long been answered.
fn watch_lateness(runtime: &Runtime) -> Arc<AtomicU64> {
    let most = Arc::new(AtomicU64::new(0));
    let late = Arc::clone(&most);
    runtime.spawn(async move {
        const NAP: Duration = Duration::from_millis(50);
        loop {
            let begun = Instant::now();
            tokio::time::sleep(NAP).await;
            let by = begun.elapsed().saturating_sub(NAP).as_nanos();
            late.fetch_max(u64::try_from(by).unwrap_or(u64::MAX), Ordering::SeqCst);
        }
    });
    most
}

fn clients_and_faults(
    runtime: &Runtime,
    target: &dyn Engine,
    engine: &str,
    seed: u64,
    length: Duration,
    recorder: &Recorder,
    progress: &(dyn Fn(&str, &Counts) + Sync),
) -> Result<(), String> {
    let scene =
        Scene { engine: engine.to_owned(), url: target.url(), place: target.place(), seed, began: now() };
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = scene.start(recorder, &stop)?;
    let url = second_url(target, &target.url());
    let store = lease_machines_store::open_existing(&url).map_err(|error| error.to_string())?;
    second::start(&mut tasks, &store, seed, recorder, &stop);
    let variables = target.variables();
    let mut apart = (0..PROCESSES)
        .map(|process| Apart::start(&scene, first_of(process, SHARING + ALONE), recorder, &variables))
        .collect::<Result<Vec<_>, _>>()?;
    let until = Instant::now() + length;
    let over = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        let over = &over;
        let handle = runtime.handle().clone();
        let apart = &mut apart;
        let faults = scope.spawn(move || {
            let _inside = handle.enter();
            let random = Random::new(seed, 2);
            let outcome = Faults { engine: target, apart, random, recorder, stop: over }.run(until);
            over.store(true, Ordering::SeqCst);
            outcome
        });
        let mut told = Instant::now();
        while !over.load(Ordering::SeqCst) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
            if told.elapsed() > Duration::from_secs(3) {
                told = Instant::now();
                progress(engine, &recorder.counts());
            }
        }
        over.store(true, Ordering::SeqCst);
        faults.join().map_err(|_| "injecting faults failed".to_owned())?
    });
    outcome?;
    stop.store(true, Ordering::SeqCst);
    runtime.block_on(async {
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(|error| format!("a client: {error}"))?;
        }
        Ok::<_, String>(())
    })?;
    apart.iter_mut().for_each(Apart::end);
    Ok(())
}

fn second_url(target: &dyn Engine, url: &str) -> String {
    format!("{}&max_ttl={}", target.second(url), second::MAX_TTL)
}

/// What the store itself remembers of each resource.
pub(crate) async fn look_back(target: &dyn Engine, names: BTreeSet<String>) -> Result<Vec<Line>, String> {
    let store =
        lease_machines_store::open_existing(&target.plain_url()).map_err(|error| error.to_string())?;
    if !store.capabilities().history {
        return Ok(Vec::new());
    }
    let at_once = Arc::new(Semaphore::new(16));
    let mut tasks = JoinSet::new();
    for name in names {
        let (store, at_once): (Arc<dyn Store>, _) = (Arc::clone(&store), Arc::clone(&at_once));
        tasks.spawn(async move {
            let _one = at_once.acquire().await.map_err(|error| error.to_string())?;
            let resource = ResourceName::new(&name).map_err(|error| error.to_string())?;
            let entries = patiently(|| store.history(resource.clone(), REMEMBERED)).await?;
            let holds = entries
                .iter()
                .map(|entry| Hold {
                    token: entry.token.value(),
                    owner: entry.owner.value(),
                    outcome: format!("{:?}", entry.outcome),
                    from: micros(entry.granted_at),
                    until: micros(entry.ends_at),
                })
                .collect::<Vec<_>>();
            Ok((holds.len() < REMEMBERED).then_some(Line::Holds { resource: name, holds }))
        });
    }
    let mut lines = Vec::new();
    while let Some(line) = tasks.join_next().await {
        let line: Result<_, String> = line.map_err(|error| error.to_string())?;
        lines.extend(line?);
    }
    Ok(lines)
}

/// Asks until there is an answer, for up to a minute: a server that was killed at the end may still be reading its data.
pub(crate) async fn patiently<'a, T>(ask: impl Fn() -> Answer<'a, T>) -> Result<T, String> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) if error.undecided() == Undecided::Refused || Instant::now() > until => {
                return Err(format!("looking back: {error}"));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

pub(crate) fn micros(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
