//! Events that a node reports to its application.

use crate::sdo::SdoOutcome;
use core::fmt;
use rtwire_wire::MacAddress;
use rtwire_wire::powerlink::{ErrorEntry, Ident, NmtCommandId, NmtState};

/// An error code of POWERLINK (DS 301, appendix 3.9).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorCode(pub u16);

macro_rules! error_codes {
    ($($item:ident = $value:literal, $text:literal;)*) => {
        impl ErrorCode {
            $(#[doc = $text] pub const $item: Self = Self($value);)*

            /// Returns the meaning of the code; `None` for an unknown one.
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
    CYCLE_EXCEEDED = 0x8232, "the cycle took too long";
    CYCLE_EXCEEDED_TOO_OFTEN = 0x8233, "the cycle took too long too often";
    SOC_JITTER = 0x8235, "SoC jitter was too large too often";
    LATE_PRES = 0x8236, "responses came too late too often";
    INVALID_FORMAT = 0x8241, "a frame had an invalid format";
    LOSS_OF_PREQ = 0x8242, "requests were lost too often";
    LOSS_OF_PRES = 0x8243, "responses were lost too often";
    LOSS_OF_SOA = 0x8244, "SoA was lost too often";
    LOSS_OF_SOC = 0x8245, "SoC was lost too often";
    OTHER_MN = 0x8410, "another managing node is active: this one waits";
    BOOT_STEP_1 = 0x8420, "a mandatory node was not found or not configured in time";
    NO_IDENT = 0x8421, "the node does not answer ident requests";
    WRONG_DEVICE_TYPE = 0x8422, "the node is of another device type";
    WRONG_VENDOR = 0x8423, "the node is of another vendor";
    WRONG_PRODUCT = 0x8424, "the node is another product";
    WRONG_REVISION = 0x8425, "the node is of another revision";
    WRONG_SERIAL_NUMBER = 0x8426, "the node has another serial number";
    CONFIGURATION = 0x8428, "the node cannot be configured";
    BOOT_STEP_2 = 0x8430, "a mandatory node did not become ready in time";
    CHECK_COMMUNICATION = 0x8440, "a mandatory node does not respond";
    WRONG_STATE = 0x8480, "the node is in an unexpected state";
    PROGRAM_STOOD_STILL = 0xf003, "this station's program stood still for longer than its watchdog allows";
    YIELDED = 0xf004, "this managing node yields to another one, and waits until it hears it no more";
    NO_STATUS = 0xf002, "the node does not answer status requests";
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

/// An event of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The node's own state has changed.
    State {
        /// The state before.
        from: NmtState,
        /// The state now.
        to: NmtState,
    },
    /// An event of another node.
    Node {
        /// The other node's number.
        node: u8,
        /// The event.
        what: NodeEvent,
    },
    /// An error of the network or of this node.
    Error {
        /// The node concerned; the node itself for an error of the whole network.
        node: u8,
        /// The error.
        code: ErrorCode,
    },
    /// A job of service data has ended.
    Sdo {
        /// The server's node.
        node: u8,
        /// The number that its submission returned.
        id: u32,
        /// Its outcome.
        outcome: SdoOutcome,
    },
    /// Another node has written an object.
    Written {
        /// Index.
        index: u16,
        /// Sub-index.
        subindex: u8,
    },
    /// The process image has a new layout; its values are 0.
    Image,
    /// A node whose heartbeat is monitored has become silent (`true`), or is back.
    Heartbeat {
        /// Number of the monitored node.
        node: u8,
        /// `true` if it is silent.
        silent: bool,
    },
    /// An NMT command for the application: host name, ARP entry, published lists.
    Command {
        /// The command.
        command: NmtCommandId,
        /// Its data.
        data: Vec<u8>,
    },
}

/// An event of another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// It has identified itself as expected.
    Found(Box<Ident>),
    /// It has changed to this state.
    State(NmtState),
    /// Its identity is not the expected one.
    WrongIdentity {
        /// The property that differs.
        code: ErrorCode,
        /// Expected value.
        expected: u32,
        /// Value found.
        found: u32,
    },
    /// Two interfaces answer for this node number.
    Duplicate {
        /// The known interface.
        known: MacAddress,
        /// The other interface.
        other: MacAddress,
    },
    /// Its configuration is being written.
    Configuring {
        /// Number of objects to write.
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
        /// Outcome of the write.
        outcome: SdoOutcome,
    },
    /// It no longer takes part in the network; the managing node searches for it again.
    Lost(LostReason),
    /// It has signalled these errors.
    Errors(Vec<ErrorEntry>),
}

/// Reason why a node counts as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LostReason {
    /// Its responses were lost too often.
    Responses,
    /// It did not answer status requests too often.
    Status,
    /// It is in an unexpected state.
    State,
    /// It did not reach the next state in time.
    Timeout,
    /// Its configuration failed.
    Configuration,
    /// It was told to reset.
    Reset,
}
