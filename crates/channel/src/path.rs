//! Which way frames come to an endpoint's listeners: through the receive program, or through packet sockets.

use crate::error::ChannelError;
use rtwire_link::program::{
    Attach, ChannelCounters, ProgramConfig, ProgramCounters, ReceiveProgram, XdpMode,
};
use rtwire_wire::EtherType;

use crate::statistics::Refusals;

/// The way that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ReceivePath {
    /// Packet sockets: work everywhere with CAP_NET_RAW.
    #[default]
    Packet,
    /// The receive program, in the driver where that is possible, else behind it; packet sockets where there is no XDP, or
    /// another program is attached. [`Endpoint::path`](crate::Endpoint::path) says which it has become.
    Auto,
    /// The receive program in the driver, or an error.
    Native,
    /// The receive program behind the driver, or an error.
    Generic,
}

/// The way that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathInUse {
    /// The receive program, in the driver.
    Native,
    /// The receive program, behind the driver.
    Generic,
    /// Packet sockets.
    Packet,
}

impl std::fmt::Display for PathInUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Packet => "packet",
        })
    }
}

impl std::str::FromStr for ReceivePath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "native" => Ok(Self::Native),
            "generic" => Ok(Self::Generic),
            "packet" => Ok(Self::Packet),
            other => Err(format!(
                "`{other}` is no receive path: there are auto, native, generic, packet"
            )),
        }
    }
}

/// How an endpoint is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointConfig {
    /// The interface's name.
    pub interface: String,
    /// The EtherType of RTDiP frames.
    pub ether_type: EtherType,
    /// The way frames are to come. Datagrams always come through their sockets.
    pub path: ReceivePath,
}

impl EndpointConfig {
    /// RTDiP's usual EtherType, packet sockets.
    #[must_use]
    pub fn new(interface: impl Into<String>) -> Self {
        Self {
            interface: interface.into(),
            ether_type: EtherType::RTDIP,
            path: ReceivePath::Packet,
        }
    }
}

/// The receive program, where there is one, and why it is not what was asked for first.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
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
            }),
            Err(error)
                if config.path == ReceivePath::Auto
                    && (error.is_lacking() || error.is_in_use()) =>
            {
                Ok(Self {
                    program: None,
                    why: Some(error.to_string()),
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn in_use(&self) -> PathInUse {
        match self.program.as_ref().map(ReceiveProgram::mode) {
            Some(XdpMode::Native) => PathInUse::Native,
            Some(XdpMode::Generic) => PathInUse::Generic,
            None => PathInUse::Packet,
        }
    }
}

/// What a channel of the program has refused.
pub(crate) fn refused(counters: &ChannelCounters) -> Refusals {
    Refusals {
        wrong_length: counters.oversize,
        wrong_key: counters.wrong_key,
        wrong_semantics: counters.wrong_semantics,
        policed: counters.policed,
        ..Refusals::default()
    }
}

/// What the program has found to be nobody's, since `before`.
pub(crate) fn strays(now: &ProgramCounters, before: &ProgramCounters) -> Refusals {
    Refusals {
        truncated: now.truncated - before.truncated,
        wrong_version: now.wrong_version - before.wrong_version,
        wrong_length: now.wrong_length - before.wrong_length,
        malformed: now.malformed - before.malformed,
        unknown_port: now.other_port - before.other_port,
        ..Refusals::default()
    }
}
