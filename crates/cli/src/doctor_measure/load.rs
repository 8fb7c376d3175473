//! Ordinary work beside the measurement: processors, memory and soft interrupts are busy. Nothing goes to a real network.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rtwire_host::netlink::{Netlink, VethEnd};
use rtwire_sys::packet::PacketSocket;
use rtwire_sys::{interface, netns};

/// The load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    Idle,
    Busy { processors: bool, network: bool },
}

impl Load {
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Busy {
                processors: true,
                network: true,
            } => "processors and network busy",
            Self::Busy {
                processors: true, ..
            } => "processors busy",
            Self::Busy { network: true, .. } => "network busy",
            Self::Idle | Self::Busy { .. } => "idle",
        }
    }
}

/// Runs `work` under the load.
///
/// # Errors
/// The load could not be set up, in words; then `work` did not run.
pub(super) fn under<T: Send>(
    load: Load,
    work: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    let Load::Busy {
        processors,
        network,
    } = load
    else {
        return work();
    };
    let stop = AtomicBool::new(false);
    let (ready, set_up) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let stop = &stop;
        if processors {
            for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| burn(stop));
            }
        }
        if network {
            scope.spawn(move || {
                let flooded = netns::in_nameless(|| flood(stop, &ready));
                if let Err(error) = flooded {
                    // Nobody waits any more if the flood had begun.
                    let _ = ready.send(Err(error.to_string()));
                }
            });
        } else {
            let _ = ready.send(Ok(()));
        }
        let begun = set_up.recv().unwrap_or_else(|_| Err("it ended".to_owned()));
        let result = begun
            .map_err(|error| format!("cannot make the load on the network: {error}"))
            .and_then(|()| work());
        stop.store(true, Ordering::Relaxed);
        result
    })
}

/// Computes and writes memory until stopped.
fn burn(stop: &AtomicBool) {
    let mut memory = vec![0_u8; 4 << 20];
    let mut round = 0_u8;
    while !stop.load(Ordering::Relaxed) {
        round = round.wrapping_add(1);
        memory.fill(std::hint::black_box(round));
    }
}

type Ready = std::sync::mpsc::Sender<Result<(), String>>;

/// Sends long frames over a cable of its own at full speed, so that the soft interrupt has work.
fn flood(stop: &AtomicBool, ready: &Ready) {
    let socket = match cable() {
        Ok(socket) => socket,
        Err(error) => {
            let _ = ready.send(Err(error));
            return;
        }
    };
    let _ = ready.send(Ok(()));
    let mut frame = [0_u8; 1514];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    frame[12..14].copy_from_slice(&super::ETHER_TYPE.to_be_bytes());
    while !stop.load(Ordering::Relaxed) {
        let _ = socket.send(&frame);
    }
}

fn cable() -> Result<PacketSocket, String> {
    let home = netns::own().map_err(|error| error.to_string())?;
    let end = |name, ifindex, last| VethEnd {
        name,
        ifindex,
        mac: [2, 0, 0, 0, 0, last],
        namespace: &home,
    };
    let mut netlink = Netlink::new();
    let both = [("rtwl0", 100, 1), ("rtwl1", 101, 2)];
    let [near, far] = both.map(|(name, ifindex, last)| end(name, ifindex, last));
    let made = netlink.create_veth(near, far).and_then(|()| {
        netlink.set_up_without_arp("rtwl0")?;
        netlink.set_up_without_arp("rtwl1")
    });
    made.map_err(|error| error.to_string())?;
    let out = interface::by_name("rtwl0").map_err(|error| error.to_string())?;
    PacketSocket::sender(&out).map_err(|error| error.to_string())
}
