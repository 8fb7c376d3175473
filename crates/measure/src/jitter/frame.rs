//! The fields of a POWERLINK frame (EPSG DS 301, 4.6) that the measurement needs: kind, nodes, state, service.

/// The NMT state of a managing node in its reduced cycle, which has no SoC.
pub(super) const PRE_OPERATIONAL_1: u8 = 0x1d;

/// One POWERLINK frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Soc,
    Preq { node: u8 },
    Pres { node: u8, state: u8 },
    Soa { state: u8, service: u8, target: u8 },
    Asnd { node: u8 },
    Other,
}

impl Kind {
    /// Reads the frame behind the Ethernet header; returns `None` if it is too short for its kind.
    pub(super) fn of(payload: &[u8]) -> Option<Self> {
        let [kind, destination, source, rest @ ..] = payload else {
            return None;
        };
        // The highest bit is reserved.
        Some(match kind & 0x7f {
            1 => Self::Soc,
            3 => Self::Preq { node: *destination },
            4 => Self::Pres {
                node: *source,
                state: *rest.first()?,
            },
            5 => match rest {
                [state, _, _, service, target, ..] => Self::Soa {
                    state: *state,
                    service: *service,
                    target: *target,
                },
                _ => return None,
            },
            6 => Self::Asnd { node: *source },
            _ => Self::Other,
        })
    }
}

/// Returns a controlled node's NMT state in words (DS 301, 7.1).
pub(super) fn state_name(state: u8) -> String {
    match state {
        0x00 => "off",
        0x19 => "initialising",
        0x29 => "reset application",
        0x39 => "reset communication",
        0x79 => "reset configuration",
        0x1c => "not active",
        0x1d => "pre-operational 1",
        0x1e => "basic Ethernet",
        0x4d => "stopped",
        0x5d => "pre-operational 2",
        0x6d => "ready to operate",
        0xfd => "operational",
        other => return format!("0x{other:02x}"),
    }
    .to_owned()
}
