//! BPF objects: loaded from bytes, attached to traffic control or to a driver (XDP), their arrays mapped into memory.
//!
//! This is a thin layer over libbpf, so that another loader could take its place. It needs CAP_BPF and CAP_NET_ADMIN,
//! or root. Loading and attaching are for set-up. Reading a [`MappedArray`] costs no system call and may be done in a
//! real-time loop.

mod array;
pub mod attached;
mod map_of_maps;
pub mod queue;
mod table;
mod xdp;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;

use libbpf_rs::{MapCore, ObjectBuilder, OpenObject, PrintLevel, ProgramInput, TcHookBuilder};

use crate::error::Errno;
use crate::filter::Filter;

pub use array::MappedArray;
pub use attached::AttachedXdp;
pub use map_of_maps::MapOfMaps;
pub use table::Table;
pub use xdp::{TestRun, XdpLink, XdpMode, attach as attach_xdp};

/// The direction of a frame through an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received by the interface.
    Ingress,
    /// Sent by the interface, before its queueing discipline.
    Egress,
}

/// An error of a BPF object; the text names the object, the part, and the kernel's answer.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The object was not accepted.
    #[error(
        "cannot load BPF object `{object}`: {source} (needs CAP_BPF and CAP_NET_ADMIN, and a kernel with BPF and BTF){messages}"
    )]
    Load {
        /// The object's name.
        object: String,
        /// libbpf's error.
        source: libbpf_rs::Error,
        /// libbpf's and the verifier's warnings, each on a line of its own.
        messages: String,
    },
    /// The object has no such program or map.
    #[error("BPF object `{object}` has no {kind} `{name}`")]
    Missing {
        /// The object's name.
        object: String,
        /// "program" or "map".
        kind: &'static str,
        /// The name that was asked for.
        name: String,
    },
    /// A program was not attached.
    #[error(
        "cannot attach BPF program `{program}` to interface {ifindex}: {source} (needs CAP_NET_ADMIN, and a kernel with sch_ingress for clsact and cls_bpf)"
    )]
    Attach {
        /// The program.
        program: String,
        /// The interface's index.
        ifindex: u32,
        /// libbpf's error.
        source: libbpf_rs::Error,
    },
    /// Another XDP program is attached already.
    #[error(
        "cannot attach XDP program `{program}` to interface {ifindex}: another XDP program is there already: {there}; end what put it there, or see `ip link show` and `bpftool net`"
    )]
    XdpInUse {
        /// The program.
        program: String,
        /// The interface's index.
        ifindex: u32,
        /// The program that is there, by name and number.
        there: String,
    },
    /// An XDP program was not attached for another reason.
    #[error("cannot attach XDP program `{program}` to interface {ifindex} in {mode} mode: {errno}{}", xdp::remedy(*.errno, *.long_mtu))]
    Xdp {
        /// The program.
        program: String,
        /// The interface's index.
        ifindex: u32,
        /// The mode asked for.
        mode: XdpMode,
        /// The kernel's error number.
        errno: Errno,
        /// The interface's MTU in bytes, where it may be the reason: native mode, and longer than usual.
        long_mtu: Option<u32>,
    },
    /// A program could not become a socket filter.
    #[error("cannot take BPF program `{program}` as a socket filter: {source}")]
    Filter {
        /// The program.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// A map could not be mapped into memory.
    #[error("cannot map BPF array `{map}`: {source}")]
    Map {
        /// The map.
        map: String,
        /// The system's error.
        source: io::Error,
    },
    /// A test run of a program failed.
    #[error("cannot test-run BPF program `{program}`: {source}")]
    TestRun {
        /// The program.
        program: String,
        /// libbpf's error.
        source: libbpf_rs::Error,
    },
}

/// libbpf's warnings since they were last taken. libbpf would print them to standard error, among a lab's tables.
static MESSAGES: Mutex<String> = Mutex::new(String::new());
const MESSAGES_MAX_BYTES: usize = 16 * 1024;
/// Bytes kept of a longer message: its end. There the verifier's log says what is wrong.
const MESSAGE_END_BYTES: usize = 1200;

fn collect_messages() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, message| {
        let mut message = message.trim_end();
        if message.len() > 2 * MESSAGE_END_BYTES {
            let mut start = message.len() - MESSAGE_END_BYTES;
            while !message.is_char_boundary(start) {
                start += 1;
            }
            message = &message[start..];
        }
        if let Ok(mut messages) = MESSAGES.lock() {
            if messages.len() + message.len() < MESSAGES_MAX_BYTES {
                messages.push('\n');
                messages.push_str(message);
            }
        }
    })));
}

fn taken_messages() -> String {
    MESSAGES
        .lock()
        .map(|mut messages| std::mem::take(&mut *messages))
        .unwrap_or_default()
}

/// A BPF object in the kernel. Its programs stay attached when it is dropped: they end with the interface.
pub struct BpfObject {
    name: String,
    object: libbpf_rs::Object,
}

impl BpfObject {
    /// Loads an object file's bytes. `entries` overrides the number of entries of the maps that it names.
    ///
    /// # Errors
    /// The kernel refuses the object (verifier, privileges), or a named map is missing.
    pub fn load(name: &str, bytes: &[u8], entries: &[(&str, u32)]) -> Result<Self, BpfError> {
        Self::load_with(name, bytes, entries, |_| ())
    }

    /// Loads an object file's bytes for one interface: its programs may ask the driver about a frame, and run nowhere
    /// else. Needs Linux 6.3.
    ///
    /// # Errors
    /// As [`load`](Self::load); the driver does not tell what the programs ask for.
    pub fn load_for(name: &str, bytes: &[u8], ifindex: u32) -> Result<Self, BpfError> {
        Self::load_with(name, bytes, &[], |open| {
            for mut program in open.progs_mut() {
                program.set_ifindex(ifindex);
                program.set_flags(libbpf_rs::libbpf_sys::BPF_F_XDP_DEV_BOUND_ONLY);
            }
        })
    }

    fn load_with(
        name: &str,
        bytes: &[u8],
        entries: &[(&str, u32)],
        prepare: impl FnOnce(&mut OpenObject),
    ) -> Result<Self, BpfError> {
        collect_messages();
        let load_error = |source| BpfError::Load {
            object: name.to_owned(),
            source,
            messages: taken_messages(),
        };
        let mut open: OpenObject = ObjectBuilder::default()
            .name(name)
            .and_then(|builder| builder.open_memory(bytes))
            .map_err(load_error)?;
        for &(map_name, count) in entries {
            let mut map = open
                .maps_mut()
                .find(|map| map.name() == map_name)
                .ok_or_else(|| BpfError::Missing {
                    object: name.to_owned(),
                    kind: "map",
                    name: map_name.to_owned(),
                })?;
            map.set_max_entries(count).map_err(load_error)?;
        }
        prepare(&mut open);
        let object = open.load().map_err(load_error)?;
        Ok(Self {
            name: name.to_owned(),
            object,
        })
    }

    /// Attaches a program of section `tc` to an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// The program is missing, or the kernel refuses.
    pub fn attach_tc(
        &self,
        program: &str,
        ifindex: u32,
        direction: Direction,
    ) -> Result<(), BpfError> {
        let found = self.program(program)?;
        let attach = || -> libbpf_rs::Result<()> {
            let mut hook = TcHookBuilder::new(found.as_fd())
                .ifindex(i32::try_from(ifindex).unwrap_or(i32::MAX))
                .replace(true)
                .handle(1)
                .priority(1)
                .hook(match direction {
                    Direction::Ingress => libbpf_rs::TC_INGRESS,
                    Direction::Egress => libbpf_rs::TC_EGRESS,
                });
            hook.create()?;
            hook.attach()?;
            Ok(())
        };
        attach().map_err(|source| BpfError::Attach {
            program: program.to_owned(),
            ifindex,
            source,
        })
    }

    /// Takes the program away that [`Self::attach_tc`] has put at an interface, also in an earlier process. There need
    /// not be one.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn detach_tc(ifindex: u32, direction: Direction) -> Result<(), BpfError> {
        collect_messages();
        // Detaching needs no program; the builder asks for a descriptor all the same.
        let any = std::io::stdin();
        let mut hook = TcHookBuilder::new(any.as_fd())
            .ifindex(i32::try_from(ifindex).unwrap_or(i32::MAX))
            .handle(1)
            .priority(1)
            .hook(match direction {
                Direction::Ingress => libbpf_rs::TC_INGRESS,
                Direction::Egress => libbpf_rs::TC_EGRESS,
            });
        match hook.detach() {
            Err(source) if source.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(BpfError::Attach {
                    program: "(removal)".to_owned(),
                    ifindex,
                    source,
                })
            }
            _ => Ok(()),
        }
    }

    /// Returns a program of section `socket` as a socket filter. The program lives as long as the filter, or a socket
    /// with it.
    ///
    /// # Errors
    /// The program is missing, or no file descriptor is left for it.
    pub fn socket_filter(&self, program: &str) -> Result<Filter, BpfError> {
        let found = self.program(program)?;
        let fd = found
            .as_fd()
            .try_clone_to_owned()
            .map_err(|source| BpfError::Filter {
                program: program.to_owned(),
                source,
            })?;
        Ok(Filter::of_program(fd))
    }

    /// Maps an array (made with `BPF_F_MMAPABLE`) of values that consist of `words` 64-bit words.
    ///
    /// # Errors
    /// The map is missing, or it cannot be mapped.
    pub fn map_array(&self, map: &str, words: usize) -> Result<MappedArray, BpfError> {
        let found = self.map(map)?;
        let map_error = |source| BpfError::Map {
            map: map.to_owned(),
            source,
        };
        if found.value_size() as usize != words * size_of::<u64>() {
            return Err(map_error(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "its values have {} bytes, not {}",
                    found.value_size(),
                    words * 8
                ),
            )));
        }
        let fd = found.as_fd().try_clone_to_owned().map_err(map_error)?;
        MappedArray::new(fd, words, found.max_entries() as usize).map_err(map_error)
    }

    /// Returns an array of maps.
    ///
    /// # Errors
    /// The map is missing, or no file descriptor is left for it.
    pub fn map_of_maps(&self, map: &str) -> Result<MapOfMaps, BpfError> {
        let found = self.map(map)?;
        let fd = found.as_fd().try_clone_to_owned();
        fd.map(MapOfMaps::new).map_err(|source| BpfError::Map {
            map: map.to_owned(),
            source,
        })
    }

    fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>, BpfError> {
        self.object
            .maps()
            .find(|candidate| candidate.name() == name)
            .ok_or_else(|| BpfError::Missing {
                object: self.name.clone(),
                kind: "map",
                name: name.to_owned(),
            })
    }

    /// Runs a program once on a frame (`BPF_PROG_TEST_RUN`) and returns its verdict.
    ///
    /// `context` is the `struct __sk_buff` at the start. Afterwards it holds the one that the program left.
    ///
    /// # Errors
    /// The program is missing, or the kernel refuses the run. It does so for a frame shorter than an Ethernet header,
    /// and for context fields that may not be set.
    pub fn test_run(
        &self,
        program: &str,
        frame: &[u8],
        context: &mut [u8],
    ) -> Result<u32, BpfError> {
        let found = self.program(program)?;
        let mut before = context.to_vec();
        let input = ProgramInput {
            data_in: Some(frame),
            context_in: Some(&mut before),
            context_out: Some(context),
            ..ProgramInput::default()
        };
        found
            .test_run(input)
            .map(|output| output.return_value)
            .map_err(|source| BpfError::TestRun {
                program: program.to_owned(),
                source,
            })
    }

    /// Returns a descriptor of a program, which keeps the program (but not its attachments) alive.
    ///
    /// # Errors
    /// The program is missing, or no file descriptor is left for it.
    pub fn program_descriptor(&self, program: &str) -> Result<OwnedFd, BpfError> {
        let found = self.program(program)?;
        let fd = found.as_fd().try_clone_to_owned();
        fd.map_err(|source| BpfError::Map {
            map: program.to_owned(),
            source,
        })
    }

    fn program(&self, name: &str) -> Result<libbpf_rs::ProgramMut<'_>, BpfError> {
        self.object
            .progs_mut()
            .find(|program| program.name() == name)
            .ok_or_else(|| BpfError::Missing {
                object: self.name.clone(),
                kind: "program",
                name: name.to_owned(),
            })
    }
}
