//! The manager, the agents and the transfers of a lab whose description names a manager.
//!
//! They are the programs of a real network: `rtwire manager` and `rtwire agent` in the hosts' namespaces, and TCP of the
//! kernel. Nothing of them is emulated.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rtwire_agentd::AgentStatus;
use rtwire_plan::{Network, Plan, PortPlan, Transfer, plan_file};
use rtwire_sys::clock::{self, Clock};
use rtwire_sys::{netns, sched};

use crate::LabError;
use crate::blueprint::node_index;
use crate::fabric::{Fabric, HOST_INTERFACE, host_address};

/// The port at which the manager answers.
const MANAGER_PORT: u16 = 4433;
/// The longest time that a frame of a one-shot reservation may take at a switch's port, ns; a quarter of it at a host's. The
/// manager admits no more.
const BUDGET_NS: u64 = 16_000_000;
/// The time that a program has to be ready.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// The time that a program has to end.
const END_WITHIN: Duration = Duration::from_secs(5);
/// A write or a read of a transfer returns after this time, so that it sees its end.
const LOOK: Duration = Duration::from_millis(100);
/// The bytes of one write or read.
const BLOCK: usize = 64 * 1024;
/// The least time between two notes of what came, ns.
const NOTE_NS: u64 = 10_000_000;

/// A program of a host.
struct Program {
    /// The words for messages.
    what: String,
    child: Child,
    /// The file of its standard error.
    log: PathBuf,
}

impl Program {
    fn said(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let last = text.lines().rev().find(|line| !line.is_empty());
        last.unwrap_or("it said nothing").to_owned()
    }

    /// Waits until the program says that it is ready.
    fn ready(&mut self) -> Result<(), LabError> {
        let until = Instant::now() + READY_WITHIN;
        loop {
            let ended = self.child.try_wait()?.is_some();
            let text = fs::read_to_string(&self.log).unwrap_or_default();
            if text.contains(": ready at ") {
                return Ok(());
            }
            if ended || Instant::now() > until {
                return Err(LabError::Managed {
                    what: self.what.clone(),
                    said: self.said(),
                });
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let until = Instant::now() + END_WITHIN;
        if let Ok(Some(_)) = self.child.try_wait() {
            return;
        }
        let pid = i32::try_from(self.child.id()).ok();
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The manager and an agent on each host. They end when the value is dropped.
pub(crate) struct Managed {
    programs: Vec<Program>,
    /// Each host with the file of its agent's status.
    status: Vec<(String, PathBuf)>,
}

/// Runs a program in a namespace, for the lab that started this process: it ends with the lab.
#[must_use]
pub fn serve_main(namespace: &str, program: &[String]) -> ExitCode {
    use std::os::unix::process::CommandExt as _;
    let entered = sched::die_with_parent()
        .map_err(|error| error.to_string())
        .and_then(|()| netns::enter_with_sysfs(namespace).map_err(|error| error.to_string()));
    let message = match (entered, program) {
        (Err(message), _) => message,
        (Ok(()), [name, arguments @ ..]) => {
            // Returns only if the program could not be started.
            let error = Command::new(name).args(arguments).exec();
            format!("cannot start `{name}`: {error}")
        }
        (Ok(()), []) => "no program is named".to_owned(),
    };
    let _ = writeln!(std::io::stderr(), "rtwire lab: {message}");
    ExitCode::from(3)
}

impl Managed {
    /// Starts the agents and the manager, and waits until all are ready. `None` for a network without a manager.
    ///
    /// # Errors
    /// [`LabError::Managed`] with what the program said.
    pub(crate) fn start(
        plan: &Plan,
        fabric: &Fabric,
        directory: &Path,
    ) -> Result<Option<Managed>, LabError> {
        let network = &plan.network;
        let Some(host) = &network.manager_host else {
            return Ok(None);
        };
        let own = std::env::current_exe()?;
        let file = directory.join("plan.json");
        let write = |path: &Path, text: &str| {
            fs::write(path, text).map_err(|source| LabError::File {
                path: path.to_owned(),
                source,
            })
        };
        write(&file, &plan_file::text(plan))?;
        let keys = directory.join("keys");
        let mut keygen = Command::new(&own);
        keygen.args(["manager", "keygen"]).arg(&keys);
        keygen.args(network.hosts.iter().map(|host| &host.name));
        let made = keygen.stdin(Stdio::null()).output()?;
        if !made.status.success() {
            return Err(LabError::Managed {
                what: "rtwire manager keygen".to_owned(),
                said: String::from_utf8_lossy(&made.stderr).trim().to_owned(),
            });
        }
        let mut managed = Managed {
            programs: Vec::new(),
            status: Vec::new(),
        };
        let address = address_of(network, host, MANAGER_PORT);
        let socket = |node: usize| directory.join(format!("agent-{node}.sock"));
        for (node, one) in network.hosts.iter().enumerate() {
            let status = directory.join(format!("agent-{node}.json"));
            let mut agent = Command::new(&own);
            agent.arg("lab-serve").arg(fabric.namespace(node).name());
            agent.arg(&own).arg("agent").arg(&file);
            agent.args(["--host", &one.name, "--interface", HOST_INTERFACE]);
            agent.args(["--manager", &address.to_string()]);
            agent
                .arg("--key")
                .arg(keys.join(format!("{}.key", one.name)));
            agent.arg("--socket").arg(socket(node));
            agent.arg("--status").arg(&status);
            for (other, peer) in network.hosts.iter().enumerate() {
                if other != node {
                    let peer = format!("{}={}", peer.name, host_address(other));
                    agent.args(["--peer", &peer]);
                }
            }
            let log = directory.join(format!("agent-{node}.log"));
            managed.begin(format!("the agent of host `{}`", one.name), agent, log)?;
            managed.status.push((one.name.clone(), status));
        }
        managed.ready()?;
        let node = node_index(network, host).unwrap_or(0);
        let mut manager = Command::new(&own);
        manager.arg("lab-serve").arg(fabric.namespace(node).name());
        manager.arg(&own).arg("manager").arg(&file);
        manager.arg("--state").arg(directory.join("state"));
        manager.arg("--keys").arg(&keys);
        manager.args(["--listen", &address.to_string()]);
        manager.args(["--budget", &format!("0={BUDGET_NS}ns")]);
        manager.arg("--agent").arg(socket(node));
        let log = directory.join("manager.log");
        managed.begin(format!("the manager on host `{host}`"), manager, log)?;
        managed.ready()?;
        Ok(Some(managed))
    }

    fn begin(&mut self, what: String, mut command: Command, log: PathBuf) -> Result<(), LabError> {
        let file = File::create(&log).map_err(|source| LabError::File {
            path: log.clone(),
            source,
        })?;
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(file).spawn()?;
        self.programs.push(Program { what, child, log });
        Ok(())
    }

    fn ready(&mut self) -> Result<(), LabError> {
        self.programs.iter_mut().try_for_each(Program::ready)
    }

    /// Returns what has gone wrong with a program, in sentences.
    pub(crate) fn troubles(&mut self) -> Vec<String> {
        let ended = |program: &mut Program| match program.child.try_wait() {
            Ok(None) => None,
            _ => Some(format!(
                "{} ended during the run: {}",
                program.what,
                program.said()
            )),
        };
        self.programs.iter_mut().filter_map(ended).collect()
    }

    /// Ends all programs, and returns what each agent did.
    pub(crate) fn finish(mut self) -> Vec<AgentStatus> {
        // The manager first: what the agents give back at their end is nobody's business here.
        while let Some(program) = self.programs.pop() {
            drop(program);
        }
        let read = |(host, path): &(String, PathBuf)| {
            let status = fs::read(path).ok();
            let status = status.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            status.unwrap_or_else(|| AgentStatus {
                host: host.clone(),
                ..AgentStatus::default()
            })
        };
        self.status.iter().map(read).collect()
    }
}

/// Returns the backlog that one-shot reservations may add to a port, bytes.
pub(crate) fn added_backlog_bytes(network: &Network, port: &PortPlan) -> u64 {
    let is_host = network.hosts.iter().any(|host| host.name == port.node);
    let budget_ns = if is_host { BUDGET_NS / 4 } else { BUDGET_NS };
    let bytes = u128::from(port.link_rate_bps) * u128::from(budget_ns) / 8_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Takes the agents' limits away from the hosts of a lab that stays up.
pub(crate) fn remove_limits(fabric: &Fabric, network: &Network) -> Result<(), LabError> {
    for node in 0..network.hosts.len() {
        let removed = fabric
            .namespace(node)
            .run(|| rtwire_agentd::remove(HOST_INTERFACE))?;
        removed.map_err(|error| LabError::Managed {
            what: format!("the agent of host `{}`", network.hosts[node].name),
            said: error.to_string(),
        })?;
    }
    Ok(())
}

fn address_of(network: &Network, host: &str, port: u16) -> SocketAddr {
    let node = node_index(network, host).unwrap_or(0);
    SocketAddr::from((host_address(node), port))
}

/// The bytes that one transfer has brought, over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Brought {
    /// Moments, ns of CLOCK_TAI, and the bytes that had come by then.
    notes: Vec<(u64, u64)>,
}

impl Brought {
    /// Returns the bytes that came from one moment to another, ns of CLOCK_TAI.
    pub(crate) fn bytes_between(&self, from_ns: u64, to_ns: u64) -> u64 {
        let by = |ns: u64| {
            let after = self.notes.partition_point(|(at, _)| *at <= ns);
            after.checked_sub(1).map_or(0, |at| self.notes[at].1)
        };
        by(to_ns).saturating_sub(by(from_ns))
    }
}

/// The transfers of a run.
pub(crate) struct Transfers {
    stop: Arc<AtomicBool>,
    senders: Vec<JoinHandle<()>>,
    receivers: Vec<JoinHandle<Brought>>,
}

impl Transfers {
    /// Starts all transfers: sockets in their hosts' namespaces, served by threads of this process without priority.
    ///
    /// # Errors
    /// The kernel refuses a socket.
    pub(crate) fn start(fabric: &Fabric, network: &Network) -> Result<Transfers, LabError> {
        let mut transfers = Transfers {
            stop: Arc::new(AtomicBool::new(false)),
            senders: Vec::new(),
            receivers: Vec::new(),
        };
        for Transfer { from, to } in &network.transfers {
            let (Some(sends), Some(receives)) =
                (node_index(network, from), node_index(network, to))
            else {
                continue;
            };
            let address = host_address(receives);
            let listener = fabric
                .namespace(receives)
                .run(|| TcpListener::bind((address, 0)))??;
            listener.set_nonblocking(true)?;
            let target = listener.local_addr()?;
            let stop = Arc::clone(&transfers.stop);
            let receiver = thread::spawn(move || receive(&listener, &stop));
            transfers.receivers.push(receiver);
            let stop = Arc::clone(&transfers.stop);
            let namespace = fabric.namespace(sends).name().to_owned();
            // A thread that has entered a namespace stays there until it ends.
            let sender = thread::spawn(move || {
                if netns::enter(&namespace).is_ok() {
                    send(target, &stop);
                }
            });
            transfers.senders.push(sender);
        }
        Ok(transfers)
    }

    /// Ends all transfers. Returns what each has brought, in the order of the description.
    pub(crate) fn finish(self) -> Vec<Brought> {
        self.stop.store(true, Ordering::Relaxed);
        for sender in self.senders {
            let _ = sender.join();
        }
        let receivers = self.receivers.into_iter();
        receivers
            .map(|receiver| receiver.join().unwrap_or_default())
            .collect()
    }
}

fn send(target: SocketAddr, stop: &AtomicBool) {
    let block = vec![0; BLOCK];
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut stream) = TcpStream::connect_timeout(&target, Duration::from_secs(1)) else {
            continue;
        };
        if stream.set_write_timeout(Some(LOOK)).is_err() {
            return;
        }
        while !stop.load(Ordering::Relaxed) {
            match stream.write(&block) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if is_pause(&error) => {}
                Err(_) => break,
            }
        }
    }
}

fn receive(listener: &TcpListener, stop: &AtomicBool) -> Brought {
    let mut brought = Brought::default();
    let mut bytes = 0;
    let mut block = vec![0; BLOCK];
    let mut stream: Option<TcpStream> = None;
    while !stop.load(Ordering::Relaxed) {
        // The newest connection is the one in use.
        if let Ok((newest, _)) = listener.accept() {
            let patient = newest
                .set_nonblocking(false)
                .and_then(|()| newest.set_read_timeout(Some(LOOK)));
            stream = patient.is_ok().then_some(newest);
        }
        let Some(own) = &mut stream else {
            thread::sleep(Duration::from_millis(5));
            continue;
        };
        match own.read(&mut block) {
            Ok(0) => stream = None,
            Ok(count) => {
                bytes += count as u64;
                let now_ns = clock::now_ns(Clock::Tai);
                let last = brought.notes.last().map_or(0, |(at, _)| *at);
                if now_ns.saturating_sub(last) >= NOTE_NS {
                    brought.notes.push((now_ns, bytes));
                }
            }
            Err(error) if is_pause(&error) => {}
            Err(_) => stream = None,
        }
    }
    brought
}

fn is_pause(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_between_two_moments() {
        let brought = Brought {
            notes: vec![(10, 100), (20, 250), (30, 400)],
        };
        assert_eq!(brought.bytes_between(10, 30), 300);
        assert_eq!(brought.bytes_between(15, 25), 150);
        assert_eq!(brought.bytes_between(0, 9), 0);
        assert_eq!(Brought::default().bytes_between(0, 9), 0);
    }
}
