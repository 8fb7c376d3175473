//! The floor of the same run: two programs in C with raw packet sockets; with a receive ring where they spin. What any way costs
//! beyond it is its own.

use super::peers::Mode;
use super::round_trips::{Ends, PRIORITY, WARM_UP};
use rtwire_sys::bpf::{XdpLink, XdpMode};
use rtwire_sys::interface;
use rtwire_testkit::{NetnsPair, Side, foreign_xdp};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

/// The two programs: one that asks and measures, and one that answers.
pub(crate) struct Floor {
    asks: End,
    answers: End,
    /// Programs of XDP that only pass every frame, one at each end.
    _behind: Vec<XdpLink>,
}

struct End {
    child: Child,
    orders: ChildStdin,
    told: ChildStdout,
}

impl Floor {
    /// Opens the floor; `behind` programs of XDP that pass every frame, where a mode is given. What is behind them is the
    /// least that any receive program costs which wakes its reader by passing the frame on.
    pub(crate) fn open(pair: &NetnsPair, mode: Mode, behind: Option<XdpMode>) -> Self {
        let attached = behind.into_iter().flat_map(|xdp| {
            [&pair.a, &pair.b].map(|side| {
                side.run(|| {
                    let index = interface::by_name(&side.interface).unwrap().index;
                    foreign_xdp().attach_xdp("foreign", index, xdp).unwrap()
                })
            })
        });
        Self {
            _behind: attached.collect(),
            asks: End::start("ask", mode, (&pair.a, &pair.b), 0),
            answers: End::start("answer", mode, (&pair.b, &pair.a), mode.server_cpu()),
        }
    }
}

impl Ends for Floor {
    fn stretch(&mut self, octets: usize, count: usize, samples: &mut Vec<u64>) -> bool {
        for end in [&mut self.answers, &mut self.asks] {
            writeln!(end.orders, "{WARM_UP} {count} {octets}").unwrap();
        }
        let back = self.asks.word();
        samples.extend((0..back).map(|_| self.asks.word()));
        self.answers.word();
        back == count as u64
    }
}

impl End {
    fn start(part: &str, mode: Mode, (own, other): (&Side, &Side), cpu: usize) -> Self {
        let wait = if mode == Mode::Spin { "spin" } else { "block" };
        let to = other.mac.map(|byte| format!("{byte:02x}")).join(":");
        let mut command = Command::new(program());
        command
            .args([part, wait, &own.interface, &to])
            .args([cpu.to_string(), PRIORITY.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = own.run(|| command.spawn().unwrap());
        let mut end = Self {
            orders: child.stdin.take().unwrap(),
            told: child.stdout.take().unwrap(),
            child,
        };
        // It is ready: no question comes before its socket.
        end.word();
        end
    }

    fn word(&mut self) -> u64 {
        let mut word = [0; 8];
        // Where it ends, its own line on standard error tells why.
        self.told.read_exact(&mut word).unwrap();
        u64::from_ne_bytes(word)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Compiles the program once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (source, program) = (folder.join("floor.c"), folder.join("floor"));
        std::fs::write(&source, include_str!("floor.c")).unwrap();
        let compiled = Command::new("cc")
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
            .args([&program, &source])
            .status();
        assert!(
            compiled.is_ok_and(|status| status.success()),
            "cc compiles floor.c: `scripts/setup bench` installs it"
        );
        program
    })
}
