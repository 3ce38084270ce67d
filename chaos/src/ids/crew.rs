//! The processes that make IDs, and what happens to them.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a process may take to end in good order, or to begin; only a failure takes it.
const PATIENCE: Duration = Duration::from_secs(60);

/// What all processes of a run are told.
pub(super) struct Scene {
    pub(super) url: String,
    pub(super) seed: u64,
    /// Where each writes down what it makes.
    pub(super) folder: PathBuf,
}

/// One process after the other, under one name.
pub(super) struct Maker<'a> {
    scene: &'a Scene,
    number: u32,
    life: u32,
    child: Child,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    Running,
    Frozen { until: Instant },
    Leaving { since: Instant },
}

impl<'a> Maker<'a> {
    pub(super) fn start(scene: &'a Scene, number: u32) -> Result<Self, String> {
        let child = spawn(scene, number, 0)?;
        Ok(Self { scene, number, life: 0, child, state: State::Running })
    }

    /// What the process that runs now has written down.
    pub(super) fn file(&self) -> PathBuf {
        file(&self.scene.folder, self.number, self.life)
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, State::Running)
    }

    /// SIGKILL, and another one in its place.
    pub(super) fn kill(&mut self) -> Result<(), String> {
        let _ = self.child.kill();
        self.replace()
    }

    pub(super) fn freeze(&mut self, until: Instant) {
        self.signal(Signal::STOP);
        self.state = State::Frozen { until };
    }

    /// Has it end in good order.
    pub(super) fn leave(&mut self) {
        drop(self.child.stdin.take());
        self.state = State::Leaving { since: Instant::now() };
    }

    /// Lets it go on whose time has come, and puts another one in the place of one that has left: not before, for some go by
    /// a name that nobody else goes by.
    pub(super) fn look(&mut self, now: Instant) -> Result<(), String> {
        match self.state {
            State::Frozen { until } if now >= until => self.thaw(),
            State::Leaving { since } => {
                if self.has_ended() {
                    return self.replace();
                }
                if since.elapsed() > PATIENCE {
                    return Err(format!(
                        "process {} was to end, and did not within {PATIENCE:?}",
                        self.number
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn thaw(&mut self) {
        if matches!(self.state, State::Frozen { .. }) {
            self.signal(Signal::CONT);
            self.state = State::Running;
        }
    }

    pub(super) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    fn replace(&mut self) -> Result<(), String> {
        let _ = self.child.wait();
        self.life += 1;
        self.child = spawn(self.scene, self.number, self.life)?;
        self.state = State::Running;
        Ok(())
    }

    fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Maker<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until each has a slot, or has said why not.
pub(super) fn wait_for_slots(makers: &[Maker<'_>]) -> Result<(), String> {
    let begun = Instant::now();
    let has_written = |maker: &Maker<'_>| maker.file().metadata().is_ok_and(|file| file.len() > 0);
    while let Some(idle) = makers.iter().find(|maker| !has_written(maker)) {
        if begun.elapsed() > PATIENCE {
            return Err(format!("process {} had no slot within {PATIENCE:?}", idle.number));
        }
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Has all of them end in good order.
pub(super) fn end(makers: &mut [Maker<'_>]) -> Result<(), String> {
    let begun = Instant::now();
    makers.iter_mut().filter(|maker| maker.is_running()).for_each(Maker::leave);
    while let Some(maker) = makers.iter_mut().find_map(|maker| (!maker.has_ended()).then_some(&*maker)) {
        if begun.elapsed() > PATIENCE {
            return Err(format!("process {} was to end, and did not within {PATIENCE:?}", maker.number));
        }
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn file(folder: &Path, number: u32, life: u32) -> PathBuf {
    folder.join(format!("{number}-{life}"))
}

fn spawn(scene: &Scene, number: u32, life: u32) -> Result<Child, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let seed = scene.seed.wrapping_add(u64::from(life) << 32);
    Command::new(program)
        .args(["maker", &scene.url])
        .arg(file(&scene.folder, number, life))
        .args([number.to_string(), seed.to_string()])
        .process_group(0)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| format!("a process that makes IDs: {error}"))
}
