//! What a node tells its application.

use crate::sdo::SdoOutcome;
use core::fmt;
use rtwire_wire::MacAddress;
use rtwire_wire::powerlink::{ErrorEntry, Ident, NmtCommandId, NmtState};

/// An error of POWERLINK (DS 301, appendix 3.9).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorCode(pub u16);

macro_rules! error_codes {
    ($($item:ident = $value:literal, $text:literal;)*) => {
        impl ErrorCode {
            $(#[doc = $text] pub const $item: Self = Self($value);)*

            /// What it means, if it is known.
            #[must_use]
            pub const fn meaning(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

error_codes! {
    COLLISION = 0x8163, "collisions on the medium";
    CRC = 0x8164, "frames with a wrong check sequence";
    LOSS_OF_LINK = 0x8165, "the link is down";
    ADDRESS_CONFLICT = 0x8201, "two nodes have the same number";
    MULTIPLE_MN = 0x8202, "there is another managing node";
    PDO_SHORT = 0x8210, "process data are shorter than their mapping";
    PDO_VERSION = 0x8211, "process data are of another version of the mapping";
    CYCLE_EXCEEDED = 0x8232, "the cycle took longer than its time";
    CYCLE_EXCEEDED_TOO_OFTEN = 0x8233, "the cycle took longer than its time, too often";
    SOC_JITTER = 0x8235, "SoC came at the wrong time, too often";
    LATE_PRES = 0x8236, "responses came too late, too often";
    INVALID_FORMAT = 0x8241, "a frame was not right";
    LOSS_OF_PREQ = 0x8242, "requests did not come, too often";
    LOSS_OF_PRES = 0x8243, "responses did not come, too often";
    LOSS_OF_SOA = 0x8244, "SoA did not come, too often";
    LOSS_OF_SOC = 0x8245, "SoC did not come, too often";
    OTHER_MN = 0x8410, "another managing node is active: this one waits";
    BOOT_STEP_1 = 0x8420, "a mandatory node was not found or not configured in time";
    NO_IDENT = 0x8421, "the node does not say who it is";
    WRONG_DEVICE_TYPE = 0x8422, "the node is of another device type";
    WRONG_VENDOR = 0x8423, "the node is of another vendor";
    WRONG_PRODUCT = 0x8424, "the node is another product";
    WRONG_REVISION = 0x8425, "the node is of another revision";
    WRONG_SERIAL_NUMBER = 0x8426, "the node has another serial number";
    CONFIGURATION = 0x8428, "the node cannot be configured";
    BOOT_STEP_2 = 0x8430, "a mandatory node did not become ready in time";
    CHECK_COMMUNICATION = 0x8440, "a mandatory node does not respond";
    WRONG_STATE = 0x8480, "the node is in another state than it should be";
    NO_STATUS = 0xf002, "the node does not tell its status";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.meaning() {
            Some(meaning) => write!(f, "{meaning} ({:04X}h)", self.0),
            None => write!(f, "error {:04X}h", self.0),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The node's own state has changed.
    State {
        /// Before.
        from: NmtState,
        /// Now.
        to: NmtState,
    },
    /// Something about another node.
    Node {
        /// Which.
        node: u8,
        /// What.
        what: NodeEvent,
    },
    /// An error of the network or of this node.
    Error {
        /// Which node it is about; the node itself, if it is about the whole.
        node: u8,
        /// Which error.
        code: ErrorCode,
    },
    /// A job of service data is over.
    Sdo {
        /// The server's node.
        node: u8,
        /// The number that its submission has given.
        id: u32,
        /// What became of it.
        outcome: SdoOutcome,
    },
    /// Another node has written an object.
    Written {
        /// Index.
        index: u16,
        /// Sub-index.
        subindex: u8,
    },
    /// The process image is laid out anew; its values are 0.
    Image,
    /// A node whose heartbeat is watched has fallen silent (`true`), or is back.
    Heartbeat {
        /// Which.
        node: u8,
        /// Whether it is silent.
        silent: bool,
    },
    /// An NMT command that is for the application: host name, ARP entry, published lists.
    Command {
        /// Which.
        command: NmtCommandId,
        /// With what.
        data: Vec<u8>,
    },
}

/// Something about another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// It has said who it is, and is who it should be.
    Found(Box<Ident>),
    /// It is in another state.
    State(NmtState),
    /// It is not who it should be.
    WrongIdentity {
        /// In which respect.
        code: ErrorCode,
        /// What it should be.
        expected: u32,
        /// What it is.
        found: u32,
    },
    /// Two interfaces answer for this number.
    Duplicate {
        /// The one that was known.
        known: MacAddress,
        /// The other one.
        other: MacAddress,
    },
    /// Its configuration is being written.
    Configuring {
        /// Objects to write.
        objects: usize,
    },
    /// Its configuration is complete.
    Configured,
    /// An object of its configuration was refused.
    ConfigurationFailed {
        /// Index.
        index: u16,
        /// Sub-index.
        subindex: u8,
        /// Why.
        outcome: SdoOutcome,
    },
    /// It no longer takes part; it is being looked for again.
    Lost(LostReason),
    /// It has signalled errors.
    Errors(Vec<ErrorEntry>),
}

/// Why a node is taken for lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LostReason {
    /// Its responses did not come, too often.
    Responses,
    /// It did not tell its status, too often.
    Status,
    /// It is in a state that it should not be in.
    State,
    /// It did not reach the next state in time.
    Timeout,
    /// Its configuration failed.
    Configuration,
    /// It was told to begin anew.
    Reset,
}
