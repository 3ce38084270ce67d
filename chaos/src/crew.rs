//! The clients of a run: some in this process, over one handle of the store and over handles of their own, the others in
//! processes of their own.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use lease_machines_store::Store;
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinSet;

use crate::client::Client;
use crate::engine::writer;
use crate::history::{Answer, Ask, Call, Line, now};
use crate::random::Random;
use crate::record::Recorder;

/// Clients that share one handle, and clients with one each.
pub(crate) const SHARING: u32 = 8;
pub(crate) const ALONE: u32 = 4;
/// Processes, and how many clients each has.
pub(crate) const PROCESSES: u32 = 3;
pub(crate) const EACH: u32 = 3;

/// What clients have to know of a run, also in another process.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) engine: String,
    pub(crate) url: String,
    pub(crate) place: String,
    pub(crate) seed: u64,
    pub(crate) began: u64,
}

impl Scene {
    /// A client, in the `life`-th process that has been started for it.
    fn client(
        &self,
        number: u32,
        life: u64,
        store: Arc<dyn Store>,
        recorder: &Recorder,
        stop: &Arc<AtomicBool>,
    ) -> Client {
        Client {
            number,
            random: Random::new(self.seed, 1_000 + u64::from(number) + (life << 32)),
            store,
            writers: [writer(&self.engine, &self.place), writer(&self.engine, &self.place)],
            recorder: recorder.clone(),
            began: self.began,
            stop: Arc::clone(stop),
            epoch: None,
            written: 0,
            former: Vec::new(),
        }
    }

    /// The clients of this process.
    pub(crate) fn start(&self, recorder: &Recorder, stop: &Arc<AtomicBool>) -> Result<JoinSet<()>, String> {
        let open = || lease_machines_store::open_existing(&self.url).map_err(|error| error.to_string());
        let mut tasks = JoinSet::new();
        let shared = open()?;
        for number in 0..SHARING {
            tasks.spawn(self.client(number, 0, Arc::clone(&shared), recorder, stop).run());
        }
        for number in SHARING..SHARING + ALONE {
            tasks.spawn(self.client(number, 0, open()?, recorder, stop).run());
        }
        Ok(tasks)
    }

    /// What a process of its own does, until its standard input ends.
    pub(crate) async fn run_apart(&self, first: u32, count: u32, life: u64) -> Result<(), String> {
        let recorder = Recorder::printing();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        thread::spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            told.store(true, Ordering::SeqCst);
        });
        let mut tasks = JoinSet::new();
        // A server may be down just now.
        let store = loop {
            match lease_machines_store::open_existing(&self.url) {
                Ok(store) => break store,
                Err(error) if stop.load(Ordering::SeqCst) => return Err(error.to_string()),
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            }
        };
        for number in first..first + count {
            tasks.spawn(self.client(number, life, Arc::clone(&store), &recorder, &stop).run());
        }
        while tasks.join_next().await.is_some() {}
        Ok(())
    }
}

/// A process with clients in it, which is started anew when it was killed.
pub(crate) struct Apart {
    scene: Scene,
    first: u32,
    life: u64,
    recorder: Recorder,
    child: Child,
    reader: Option<JoinHandle<()>>,
    frozen: Option<u64>,
    variables: Vec<(String, String)>,
}

impl Apart {
    pub(crate) fn start(
        scene: &Scene,
        first: u32,
        recorder: &Recorder,
        variables: &[String],
    ) -> Result<Self, String> {
        let variables: Vec<(String, String)> = variables
            .iter()
            .filter_map(|variable| variable.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let (child, reader) = spawn(scene, first, 0, recorder, &variables)?;
        Ok(Self {
            scene: scene.clone(),
            first,
            life: 0,
            recorder: recorder.clone(),
            child,
            reader: Some(reader),
            frozen: None,
            variables,
        })
    }

    /// SIGKILL, and another one in its place.
    pub(crate) fn kill(&mut self) -> Result<(), String> {
        let _ = self.child.kill();
        self.gone();
        self.life += 1;
        let (child, reader) = spawn(&self.scene, self.first, self.life, &self.recorder, &self.variables)?;
        (self.child, self.reader) = (child, Some(reader));
        Ok(())
    }

    pub(crate) fn freeze(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::STOP);
        self.frozen = Some(now());
    }

    pub(crate) fn thaw(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::CONT);
        if let Some(from) = self.frozen.take() {
            let clients = (self.first..self.first + EACH).collect();
            self.recorder.line(Line::Frozen { clients, from, until: now() });
        }
    }

    /// Lets it come to an end.
    pub(crate) fn end(&mut self) {
        self.thaw();
        drop(self.child.stdin.take());
        let begun = std::time::Instant::now();
        while begun.elapsed() < std::time::Duration::from_secs(30) {
            if let Ok(Some(_)) = self.child.try_wait() {
                break;
            }
            thread::sleep(std::time::Duration::from_millis(20));
        }
        let _ = self.child.kill();
        self.gone();
    }

    fn gone(&mut self) {
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let _ = self.child.kill();
        self.gone();
    }
}

fn spawn(
    scene: &Scene,
    first: u32,
    life: u64,
    recorder: &Recorder,
    variables: &[(String, String)],
) -> Result<(Child, JoinHandle<()>), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .args(["apart", &scene.engine, &scene.url, &scene.place])
        .args(
            [scene.seed, scene.began, u64::from(first), u64::from(EACH), life]
                .map(|number| number.to_string()),
        )
        .envs(variables.iter().cloned())
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("a process for clients: {error}"))?;
    let said = BufReader::new(child.stdout.take().ok_or("no output of a process for clients")?);
    let recorder = recorder.clone();
    // What was begun and has no answer in the end may have happened.
    let reader = thread::spawn(move || {
        let open: Mutex<HashMap<(u32, u64, String), Ask>> = Mutex::default();
        for line in said.lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(Line::Begun { client, resource, ask, began }) => {
                    open.lock().unwrap().insert((client, began, resource), ask);
                }
                Ok(Line::Call(call)) => {
                    open.lock().unwrap().remove(&(call.client, call.began, call.resource.clone()));
                    recorder.line(Line::Call(call));
                }
                // Cut off in its middle.
                _ => {}
            }
        }
        let ended = now();
        for ((client, began, resource), ask) in open.into_inner().unwrap() {
            let answer = Answer::Unknown("its process was killed".to_owned());
            recorder.line(Line::Call(Call { client, resource, ask, began, guarded: None, ended, answer }));
        }
    });
    Ok((child, reader))
}
