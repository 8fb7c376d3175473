//! Code points of POWERLINK, all open: an unknown number is kept and shown as it is.

use core::fmt;

/// Node numbers with a meaning of their own (DS 301, 4.5).
pub mod node {
    /// No node.
    pub const INVALID: u8 = 0;
    /// The highest number of an ordinary controlled node.
    pub const LAST_CN: u8 = 239;
    /// The managing node.
    pub const MN: u8 = 240;
    /// The node itself, for frames that do not leave it.
    pub const SELF: u8 = 251;
    /// The "dummy" node, which does not exist.
    pub const DUMMY: u8 = 252;
    /// A diagnostic device.
    pub const DIAGNOSTIC: u8 = 253;
    /// A router to an ordinary network.
    pub const ROUTER: u8 = 254;
    /// All nodes.
    pub const BROADCAST: u8 = 255;
}

/// Group addresses (DS 301, 4.6.1.1.1).
pub mod multicast {
    use crate::MacAddress;

    /// Start of cycle.
    pub const SOC: MacAddress = MacAddress([0x01, 0x11, 0x1e, 0, 0, 1]);
    /// Poll responses.
    pub const PRES: MacAddress = MacAddress([0x01, 0x11, 0x1e, 0, 0, 2]);
    /// Start of the asynchronous phase.
    pub const SOA: MacAddress = MacAddress([0x01, 0x11, 0x1e, 0, 0, 3]);
    /// Asynchronous messages.
    pub const ASND: MacAddress = MacAddress([0x01, 0x11, 0x1e, 0, 0, 4]);
    /// Active managing node indication (AMNI).
    pub const AMNI: MacAddress = MacAddress([0x01, 0x11, 0x1e, 0, 0, 5]);
}

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$item_doc:meta])* $item:ident = $value:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub u8);

        impl $name {
            $($(#[$item_doc])* pub const $item: Self = Self($value);)*

            /// Returns the code point's name; `None` if it is unknown.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($text),)*
                    _ => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => f.pad(name),
                    None => write!(f, "0x{:02X}", self.0),
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}
pub(super) use codes;

codes! {
    /// The kind of a frame.
    MessageType {
        /// Start of cycle.
        SOC = 1, "SoC";
        /// Poll request.
        PREQ = 3, "PReq";
        /// Poll response.
        PRES = 4, "PRes";
        /// Start of the asynchronous phase.
        SOA = 5, "SoA";
        /// Asynchronous message.
        ASND = 6, "ASnd";
        /// Active managing node indication.
        AMNI = 7, "AMNI";
        /// Asynchronous invitation.
        AINV = 13, "AInv";
    }
}

codes! {
    /// The service that an SoA asks of its target.
    RequestedService {
        /// No service: no node may send.
        NO_SERVICE = 0, "NoService";
        /// An IdentResponse.
        IDENT_REQUEST = 1, "IdentRequest";
        /// A StatusResponse.
        STATUS_REQUEST = 2, "StatusRequest";
        /// An NMTRequest.
        NMT_REQUEST_INVITE = 3, "NMTRequestInvite";
        /// A SyncResponse (PollResponse chaining, EPSG DS 302-C).
        SYNC_REQUEST = 6, "SyncRequest";
        /// Any frame that waits, POWERLINK or not.
        UNSPECIFIED_INVITE = 0xff, "UnspecifiedInvite";
    }
}

codes! {
    /// The service of an asynchronous message (ASnd).
    AsndService {
        /// A node's identity and abilities.
        IDENT_RESPONSE = 1, "IdentResponse";
        /// A node's state and errors.
        STATUS_RESPONSE = 2, "StatusResponse";
        /// A node's request to the managing node.
        NMT_REQUEST = 3, "NMTRequest";
        /// The managing node's order to other nodes.
        NMT_COMMAND = 4, "NMTCommand";
        /// Service data.
        SDO = 5, "SDO";
        /// The answer to a SyncRequest (EPSG DS 302-C).
        SYNC_RESPONSE = 6, "SyncResponse";
    }
}

codes! {
    /// The state of a node's network management (DS 301, 7.1), as frames carry it.
    ///
    /// A state has the same number for managing and controlled nodes.
    NmtState {
        /// Switched off; never on the wire.
        OFF = 0x00, "Off";
        /// Power-on.
        INITIALISING = 0x19, "Initialising";
        /// The application is being reset.
        RESET_APPLICATION = 0x29, "ResetApplication";
        /// Communication is being reset.
        RESET_COMMUNICATION = 0x39, "ResetCommunication";
        /// The configuration is being taken over.
        RESET_CONFIGURATION = 0x79, "ResetConfiguration";
        /// Listening only.
        NOT_ACTIVE = 0x1c, "NotActive";
        /// Reduced cycle: identification.
        PRE_OPERATIONAL_1 = 0x1d, "PreOperational1";
        /// Ordinary cycle, no valid process data yet: configuration.
        PRE_OPERATIONAL_2 = 0x5d, "PreOperational2";
        /// Configured, waits for its start.
        READY_TO_OPERATE = 0x6d, "ReadyToOperate";
        /// Process data are valid.
        OPERATIONAL = 0xfd, "Operational";
        /// Stopped: reads but does not take part.
        STOPPED = 0x4d, "Stopped";
        /// Ordinary Ethernet, no POWERLINK cycle on the medium.
        BASIC_ETHERNET = 0x1e, "BasicEthernet";
    }
}

codes! {
    /// The number of an NMT command (DS 301, appendix 3.7).
    NmtCommandId {
        /// Asks for an IdentRequest (only within an NMTRequest).
        IDENT_REQUEST = 0x01, "IdentRequest";
        /// Asks for a StatusRequest (only within an NMTRequest).
        STATUS_REQUEST = 0x02, "StatusRequest";
        /// ReadyToOperate to Operational.
        START_NODE = 0x21, "NMTStartNode";
        /// To Stopped.
        STOP_NODE = 0x22, "NMTStopNode";
        /// Back to PreOperational2.
        ENTER_PRE_OPERATIONAL_2 = 0x23, "NMTEnterPreOperational2";
        /// PreOperational2 to ReadyToOperate.
        ENABLE_READY_TO_OPERATE = 0x24, "NMTEnableReadyToOperate";
        /// To ResetApplication.
        RESET_NODE = 0x28, "NMTResetNode";
        /// To ResetCommunication.
        RESET_COMMUNICATION = 0x29, "NMTResetCommunication";
        /// To ResetConfiguration.
        RESET_CONFIGURATION = 0x2a, "NMTResetConfiguration";
        /// To Initialising.
        SW_RESET = 0x2b, "NMTSwReset";
        /// The managing node hands its role over to another one (EPSG DS 302-A).
        GO_TO_STANDBY = 0x2c, "NMTGoToStandby";
        /// [`START_NODE`](Self::START_NODE) for a list of nodes.
        START_NODE_EX = 0x41, "NMTStartNodeEx";
        /// [`STOP_NODE`](Self::STOP_NODE) for a list of nodes.
        STOP_NODE_EX = 0x42, "NMTStopNodeEx";
        /// [`ENTER_PRE_OPERATIONAL_2`](Self::ENTER_PRE_OPERATIONAL_2) for a list of nodes.
        ENTER_PRE_OPERATIONAL_2_EX = 0x43, "NMTEnterPreOperational2Ex";
        /// [`ENABLE_READY_TO_OPERATE`](Self::ENABLE_READY_TO_OPERATE) for a list of nodes.
        ENABLE_READY_TO_OPERATE_EX = 0x44, "NMTEnableReadyToOperateEx";
        /// [`RESET_NODE`](Self::RESET_NODE) for a list of nodes.
        RESET_NODE_EX = 0x48, "NMTResetNodeEx";
        /// [`RESET_COMMUNICATION`](Self::RESET_COMMUNICATION) for a list of nodes.
        RESET_COMMUNICATION_EX = 0x49, "NMTResetCommunicationEx";
        /// [`RESET_CONFIGURATION`](Self::RESET_CONFIGURATION) for a list of nodes.
        RESET_CONFIGURATION_EX = 0x4a, "NMTResetConfigurationEx";
        /// [`SW_RESET`](Self::SW_RESET) for a list of nodes.
        SW_RESET_EX = 0x4b, "NMTSwResetEx";
        /// A new host name.
        NET_HOST_NAME_SET = 0x62, "NMTNetHostNameSet";
        /// An ARP entry is to be forgotten.
        FLUSH_ARP_ENTRY = 0x63, "NMTFlushArpEntry";
        /// The list of configured nodes.
        PUBLISH_CONFIGURED_NODES = 0x80, "NMTPublishConfiguredNodes";
        /// The list of active nodes.
        PUBLISH_ACTIVE_NODES = 0x90, "NMTPublishActiveNodes";
        /// The list of nodes in PreOperational1.
        PUBLISH_PRE_OPERATIONAL_1 = 0x91, "NMTPublishPreOperational1";
        /// The list of nodes in PreOperational2.
        PUBLISH_PRE_OPERATIONAL_2 = 0x92, "NMTPublishPreOperational2";
        /// The list of nodes in ReadyToOperate.
        PUBLISH_READY_TO_OPERATE = 0x93, "NMTPublishReadyToOperate";
        /// The list of nodes in Operational.
        PUBLISH_OPERATIONAL = 0x94, "NMTPublishOperational";
        /// The list of nodes in Stopped.
        PUBLISH_STOPPED = 0x95, "NMTPublishStopped";
        /// The state of each node.
        PUBLISH_NODE_STATES = 0x96, "NMTPublishNodeStates";
        /// The list of nodes with new errors.
        PUBLISH_EMERGENCY_NEW = 0xa0, "NMTPublishEmergencyNew";
        /// Date and time.
        PUBLISH_TIME = 0xb0, "NMTPublishTime";
        /// The service that was asked for is not known (only in answer to an NMTRequest).
        INVALID_SERVICE = 0xff, "NMTInvalidService";
    }
}

impl NmtCommandId {
    /// Returns the same command for one node, if this one is for a list of nodes; else the command itself.
    #[must_use]
    pub const fn plain(self) -> Self {
        if self.0 >= 0x40 && self.0 <= 0x5f {
            Self(self.0 - 0x20)
        } else {
            self
        }
    }

    /// True if the command's data list the nodes that are configured, active, or in a state.
    #[must_use]
    pub const fn publishes_nodes(self) -> bool {
        matches!(self.0, 0x80 | 0x90..=0x95)
    }

    /// True if the command is for a list of nodes, which its data hold.
    #[must_use]
    pub const fn has_node_list(self) -> bool {
        self.0 >= 0x40 && self.0 <= 0x5f
    }
}
