//! A host's door: it listens for a deployer that has the host's key, and carries its orders out by this host's own commands.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use rtwire_managerd::{random, read_key};

use crate::DeployError;
use crate::line::{Line, LineError};
use crate::order::{Order, Reply};

/// The connections that are open at once, at most.
const MOST_LINES: usize = 16;
/// The time that somebody without a key may take.
const UNKNOWN_WITHIN: Duration = Duration::from_secs(5);
/// The time between two orders of a deployer, at most.
const IDLE: Duration = Duration::from_secs(120);
/// The pause between two looks for a deployer.
const LOOK: Duration = Duration::from_millis(20);
/// The time that putting back takes, at most as a rule.
const PUT_BACK: Duration = Duration::from_secs(2);
/// The exit code of a host that another deployer has in hand.
const BUSY: i32 = 1;
/// The exit code where this host lacks something.
const LACKING: i32 = 3;

/// The settings of a door.
#[derive(Clone, Debug)]
pub struct DoorSettings {
    /// This host, as the plan names it.
    pub host: String,
    /// Its interface.
    pub interface: String,
    /// Its key file.
    pub key: PathBuf,
    /// The address to listen at.
    pub listen: SocketAddr,
    /// The folder of the plans: `next.json` while one is tried, `plan.json` once it is confirmed.
    pub state: PathBuf,
    /// Further arguments of `rtwire apply`.
    pub apply_with: Vec<String>,
    /// Further arguments of `rtwire run`.
    pub run_with: Vec<String>,
    /// The program `rtwire`.
    pub program: PathBuf,
}

/// Something to be told while the door is open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Told {
    /// The door is open.
    Ready(SocketAddr),
    /// Somebody without the key was at the door.
    Stranger(SocketAddr),
    /// An order was carried out, with this exit code.
    Done(&'static str, i32),
}

/// A host's door.
pub struct Door {
    settings: DoorSettings,
    listener: TcpListener,
    /// Held by the deployer that is at work.
    work: Arc<Mutex<()>>,
    /// The moment from which an applied plan that nobody has confirmed is certainly put back.
    unconfirmed: Mutex<Option<Instant>>,
}

impl Door {
    /// Opens the door.
    ///
    /// # Errors
    /// The key or the folder cannot be used, or the address.
    pub fn open(settings: DoorSettings) -> Result<Door, DeployError> {
        read_key(&settings.key)?;
        fs::create_dir_all(&settings.state).map_err(file("make", &settings.state))?;
        let failed = |error| DeployError::Listen {
            address: settings.listen,
            error,
        };
        let listener = TcpListener::bind(settings.listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Door {
            settings,
            listener,
            work: Arc::default(),
            unconfirmed: Mutex::new(None),
        })
    }

    /// Serves deployers until `stop` is set. An order that is being carried out ends first.
    ///
    /// # Errors
    /// The socket fails.
    pub fn run(&self, stop: &AtomicBool, tell: &(dyn Fn(Told) + Sync)) -> Result<(), DeployError> {
        let failed = |error| DeployError::Listen {
            address: self.settings.listen,
            error,
        };
        tell(Told::Ready(self.listener.local_addr().map_err(failed)?));
        // The lines that are open, so that none outlives the door.
        let lines: Mutex<BTreeMap<u64, TcpStream>> = Mutex::default();
        let mut number = 0;
        thread::scope(|scope| {
            while !stop.load(Ordering::Relaxed) {
                let Ok((stream, from)) = self.listener.accept() else {
                    self.restore_unconfirmed(tell);
                    thread::sleep(LOOK);
                    continue;
                };
                let Ok(second) = stream.try_clone() else {
                    continue;
                };
                if lock(&lines).len() >= MOST_LINES {
                    continue;
                }
                number += 1;
                lock(&lines).insert(number, second);
                let lines = &lines;
                scope.spawn(move || {
                    if let Err(LineError::Forged) = self.serve(stream, stop, tell) {
                        tell(Told::Stranger(from));
                    }
                    lock(lines).remove(&number);
                });
            }
            for line in lock(&lines).values() {
                let _ = line.shutdown(Shutdown::Both);
            }
        });
        Ok(())
    }

    fn serve(
        &self,
        stream: TcpStream,
        stop: &AtomicBool,
        tell: &(dyn Fn(Told) + Sync),
    ) -> Result<(), LineError> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(UNKNOWN_WITHIN))?;
        stream.set_write_timeout(Some(UNKNOWN_WITHIN))?;
        let second = stream.try_clone()?;
        // Read again each time: it may have been replaced.
        let key =
            read_key(&self.settings.key).map_err(|error| io::Error::other(error.to_string()))?;
        let nonce = random().map_err(|error| io::Error::other(error.to_string()))?;
        let mut line = Line::door(stream, key, nonce)?;
        let mut content = line.receive()?;
        // From here on it is the deployer.
        second.set_read_timeout(Some(IDLE))?;
        second.set_write_timeout(Some(IDLE))?;
        let work = match self.work.try_lock() {
            Ok(work) => Some(work),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        loop {
            let order: Order = serde_json::from_slice(&content).map_err(io::Error::from)?;
            let (reply, attached) = match &work {
                Some(_) => self.carry_out(&order),
                None => {
                    let text =
                        "another deployer is at work on this host; try again when it has ended";
                    (told(BUSY, text), Vec::new())
                }
            };
            tell(Told::Done(name(&order), reply.code));
            line.send(&serde_json::to_vec(&reply).map_err(io::Error::from)?)?;
            if reply.attached {
                line.send(&attached)?;
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            content = line.receive()?;
        }
    }

    fn carry_out(&self, order: &Order) -> (Reply, Vec<u8>) {
        let none = |reply| (reply, Vec::new());
        match order {
            Order::Ready => none(told(0, "")),
            Order::Show { plan } => none(self.apply(plan, &["--dry-run".to_owned()])),
            Order::Check { plan } => none(self.check(plan)),
            Order::Apply {
                plan,
                confirm_within_s,
            } => none(self.replace(plan, *confirm_within_s)),
            Order::Confirm => none(self.confirm()),
            Order::Run { plan, duration_ms } => self.evidence(plan, *duration_ms),
        }
    }

    fn next(&self) -> PathBuf {
        self.settings.state.join("next.json")
    }

    /// Writes the plan and runs `rtwire apply` of it.
    fn apply(&self, plan: &str, with: &[String]) -> Reply {
        let next = self.next();
        if let Err(error) = write(&next, plan.as_bytes()) {
            return told(LACKING, &error.to_string());
        }
        let mut command = self.command("apply", &next);
        command.args(with).args(&self.settings.apply_with);
        run(command)
    }

    /// Applies a plan in the place of the deployed one, if there is one. It is put back unless it is confirmed; then the deployed
    /// one is applied again.
    fn replace(&self, plan: &str, confirm_within_s: u32) -> Reply {
        let checked = self.apply(plan, &["--check".to_owned()]);
        if checked.code == 0 {
            return checked;
        }
        let had = self.deployed().exists();
        if had {
            // Where there is nothing to put back, the application says so.
            let mut revert = Command::new(&self.settings.program);
            revert.args(["revert", &self.settings.interface]);
            run(revert);
        }
        let within = format!("{confirm_within_s}s");
        let reply = self.apply(plan, &["--confirm-within".to_owned(), within]);
        if had && reply.code != 0 {
            self.restore();
        } else if had {
            let over = Duration::from_secs(confirm_within_s.into()) + PUT_BACK;
            *lock(&self.unconfirmed) = Some(Instant::now() + over);
        }
        reply
    }

    fn deployed(&self) -> PathBuf {
        self.settings.state.join("plan.json")
    }

    /// Applies the deployed plan again.
    fn restore(&self) -> Reply {
        let mut command = self.command("apply", &self.deployed());
        command.args(&self.settings.apply_with);
        run(command)
    }

    /// Applies the deployed plan again where another one was not confirmed.
    fn restore_unconfirmed(&self, tell: &(dyn Fn(Told) + Sync)) {
        let is_over = lock(&self.unconfirmed).is_some_and(|over| Instant::now() >= over);
        if !is_over {
            return;
        }
        let Ok(_work) = self.work.try_lock() else {
            return;
        };
        let reply = self.restore();
        tell(Told::Done("the deployed plan again", reply.code));
        // Once more a little later, where the settings are still being put back.
        *lock(&self.unconfirmed) = (reply.code != 0).then(|| Instant::now() + PUT_BACK);
    }

    fn check(&self, plan: &str) -> Reply {
        let mut reply = self.apply(plan, &["--check".to_owned()]);
        let kept = fs::read(self.deployed());
        let note = match kept {
            Ok(kept) if kept == plan.as_bytes() => None,
            Ok(_) => Some("differs  the plan that was deployed here is another one"),
            Err(_) => Some("differs  no plan was deployed here"),
        };
        if let Some(note) = note {
            reply.text = format!("{note}\n{}", reply.text);
            reply.code = reply.code.max(1);
        }
        reply
    }

    fn confirm(&self) -> Reply {
        let mut command = Command::new(&self.settings.program);
        command.args(["confirm", &self.settings.interface]);
        let mut reply = run(command);
        // Nothing was to be confirmed, since nothing had to be changed, or since it was confirmed a moment ago. What is in
        // force decides.
        if reply.code != 0 {
            let Ok(plan) = fs::read_to_string(self.next()) else {
                return reply;
            };
            let checked = self.apply(&plan, &["--check".to_owned()]);
            if checked.code != 0 {
                return reply;
            }
            reply = told(0, "all is as planned already");
        }
        *lock(&self.unconfirmed) = None;
        let kept = self.deployed();
        match fs::copy(self.next(), self.settings.state.join("plan.new"))
            .and_then(|_| fs::rename(self.settings.state.join("plan.new"), &kept))
        {
            Ok(()) => reply,
            Err(error) => {
                let text = format!(
                    "the settings are kept, but `{}` cannot be written: {error}",
                    kept.display()
                );
                told(LACKING, &text)
            }
        }
    }

    fn evidence(&self, plan: &str, duration_ms: u64) -> (Reply, Vec<u8>) {
        let next = self.settings.state.join("run.json");
        let file = self.settings.state.join("run.evidence");
        let _ = fs::remove_file(&file);
        if let Err(error) = write(&next, plan.as_bytes()) {
            return (told(LACKING, &error.to_string()), Vec::new());
        }
        let mut command = self.command("run", &next);
        command.args(["--duration", &format!("{duration_ms}ms"), "--evidence"]);
        command.arg(&file).args(&self.settings.run_with);
        let mut reply = run(command);
        match fs::read(&file) {
            Ok(bytes) => {
                reply.attached = true;
                (reply, bytes)
            }
            Err(_) => (reply, Vec::new()),
        }
    }

    /// A command of this host on a plan.
    fn command(&self, verb: &str, plan: &Path) -> Command {
        let mut command = Command::new(&self.settings.program);
        command.arg(verb).arg(plan);
        command.args(["--host", &self.settings.host]);
        command.args(["--interface", &self.settings.interface]);
        command
    }
}

/// The lock of state that is whole between any two of its changes.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name(order: &Order) -> &'static str {
    match order {
        Order::Ready => "ready",
        Order::Show { .. } => "show",
        Order::Apply { .. } => "apply",
        Order::Confirm => "confirm",
        Order::Check { .. } => "check",
        Order::Run { .. } => "run",
    }
}

fn told(code: i32, text: &str) -> Reply {
    Reply {
        code,
        text: text.to_owned(),
        attached: false,
    }
}

fn run(mut command: Command) -> Reply {
    match command.stdin(Stdio::null()).output() {
        Ok(output) => {
            let text = [&output.stdout[..], &output.stderr[..]].concat();
            let text = String::from_utf8_lossy(&text);
            // Ended by a signal: nobody knows what is done.
            told(output.status.code().unwrap_or(LACKING), text.trim_end())
        }
        Err(error) => told(LACKING, &format!("cannot start `rtwire`: {error}")),
    }
}

fn file<'a>(what: &'static str, path: &'a Path) -> impl Fn(io::Error) -> DeployError + 'a {
    move |error| DeployError::File {
        what,
        path: path.display().to_string(),
        error,
    }
}

/// Writes a file whole, readable by its owner only.
fn write(path: &Path, bytes: &[u8]) -> Result<(), DeployError> {
    let aside = path.with_extension("new");
    let _ = fs::remove_file(&aside);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let written = options.open(&aside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written
        .and_then(|()| fs::rename(&aside, path))
        .map_err(file("write", path))
}
