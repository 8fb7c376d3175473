//! Receive path of an endpoint's listeners: the receive program, packet sockets, or the ring of the module `uman`.

use crate::error::ChannelError;
use rtwire_link::program::{
    Attach, ChannelCounters, ProgramConfig, ProgramCounters, ReceiveProgram, XdpMode,
};
use rtwire_link::uman::Attachment;
use rtwire_link::{PathInUse, ReceivePath};
use rtwire_wire::EtherType;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::statistics::Refusals;

/// The receive path of one listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerPath {
    /// The path.
    pub path: PathInUse,
    /// Reason why it is not a path listed before it; `None` if there is none.
    pub why: Option<String>,
}

impl ListenerPath {
    /// Returns the path of a listener that has a packet socket although the receive program is available.
    #[must_use]
    pub fn packet_by_choice() -> Self {
        Self {
            path: PathInUse::Packet,
            why: Some("its reader sleeps: a packet socket costs less".to_owned()),
        }
    }
}

impl std::fmt::Display for ListenerPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.why {
            Some(why) => write!(f, "{} ({why})", self.path),
            None => self.path.fmt(f),
        }
    }
}

/// Configuration of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointConfig {
    /// The interface's name.
    pub interface: String,
    /// The EtherType of RTDiP frames.
    pub ether_type: EtherType,
    /// Requested receive path. Datagrams always come through their own sockets.
    pub path: ReceivePath,
}

impl EndpointConfig {
    /// Returns a configuration with RTDiP's usual EtherType and the best receive path for each listener
    /// ([`ReceivePath::Auto`]). That attaches the receive program where the privileges for it are there.
    #[must_use]
    pub fn new(interface: impl Into<String>) -> Self {
        Self {
            interface: interface.into(),
            ether_type: EtherType::RTDIP,
            path: ReceivePath::Auto,
        }
    }
}

/// The receive program, if attached, and the reason why it is not the path that is tried first; or the module's device.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    /// This process's attachment to a device of the kernel module `uman`.
    pub(crate) uman: Option<Arc<Attachment>>,
    pub(crate) program: Option<ReceiveProgram>,
    pub(crate) why: Option<String>,
}

impl Chosen {
    pub(crate) fn open(config: &EndpointConfig) -> Result<Self, ChannelError> {
        let attach = match config.path {
            ReceivePath::Packet => return Ok(Self::default()),
            ReceivePath::Auto => Attach::Best,
            ReceivePath::Native => Attach::Only(XdpMode::Native),
            ReceivePath::Generic => Attach::Only(XdpMode::Generic),
            ReceivePath::Uman => {
                return Ok(Self {
                    uman: Some(Attachment::shared(&config.interface)?),
                    ..Self::default()
                });
            }
        };
        let result = ReceiveProgram::with(&ProgramConfig {
            interface: config.interface.clone(),
            ether_type: config.ether_type,
            attach,
        });
        match result {
            Ok(program) => Ok(Self {
                why: program.why_generic().map(str::to_owned),
                program: Some(program),
                uman: None,
            }),
            Err(error)
                if config.path == ReceivePath::Auto
                    && (error.is_lacking() || error.is_in_use()) =>
            {
                Ok(Self {
                    why: Some(error.to_string()),
                    ..Self::default()
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn in_use(&self) -> PathInUse {
        match self.program.as_ref().map(ReceiveProgram::mode) {
            Some(XdpMode::Native) => PathInUse::Native,
            Some(XdpMode::Generic) => PathInUse::Generic,
            None if self.uman.is_some() => PathInUse::Uman,
            None => PathInUse::Packet,
        }
    }
}

/// Returns the frames that a channel of the receive program has refused.
pub(crate) fn refused(counters: &ChannelCounters) -> Refusals {
    Refusals {
        wrong_length: counters.oversize,
        wrong_key: counters.wrong_key,
        wrong_semantics: counters.wrong_semantics,
        policed: counters.policed,
        ..Refusals::default()
    }
}

/// Counts the frames without a listener that the receive program has seen. It sees every frame, so no packet socket
/// needs to look for any.
#[derive(Debug)]
pub(crate) struct ProgramStrays {
    /// Counters already reported.
    faulty: ProgramCounters,
    /// The same for each port without a channel.
    ports: BTreeMap<u16, u64>,
}

impl ProgramStrays {
    /// Starts to count now.
    pub(crate) fn new(program: &ReceiveProgram) -> Self {
        Self {
            faulty: program.counters(),
            ports: program.other_ports().collect(),
        }
    }

    /// Counts the frames without a listener since the last time. `is_held` tells whether a port has a listener.
    pub(crate) fn examine(
        &mut self,
        program: &ReceiveProgram,
        is_held: impl Fn(u16) -> bool,
    ) -> Refusals {
        let mut unknown = 0;
        for (port, frames) in program.other_ports() {
            let told = self.ports.entry(port).or_default();
            let new = frames - *told;
            *told = frames;
            if new > 0 && !is_held(port) {
                unknown += new;
            }
        }
        let (before, now) = (self.faulty, program.counters());
        self.faulty = now;
        Refusals {
            truncated: now.truncated - before.truncated,
            wrong_version: now.wrong_version - before.wrong_version,
            wrong_length: now.wrong_length - before.wrong_length,
            malformed: now.malformed - before.malformed,
            unknown_port: unknown,
            ..Refusals::default()
        }
    }
}
