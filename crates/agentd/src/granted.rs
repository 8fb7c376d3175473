//! A connection of the manager as a program has it.

use rtwire_agent::Channel;
use rtwire_manager::{Carrier, Granted};

/// Returns what a program is told of a connection.
pub(crate) fn channel(granted: &Granted) -> Channel {
    let ask = &granted.ask;
    Channel {
        connection: granted.connection,
        epoch: granted.epoch,
        talker: granted.talker.clone(),
        listener: ask.listener.clone(),
        promise_ns: granted.promise_ns,
        priority: ask.pcp,
        frame_bytes: ask.frame_bytes,
        rate_bytes_per_ms: ask.rate_bytes_per_ms,
        burst_bytes: ask.burst_bytes,
        deadline_ns: ask.deadline_ns,
        source_port: ask.source_port,
        port: ask.port,
        number: granted.number,
        key: granted.key,
        carrier: program_carrier(ask.carrier),
        vlan: ask.vlan,
        interval_ns: ask.interval_ns,
        launch_offset_ns: granted.launch_offset_ns,
    }
}

fn program_carrier(carrier: Carrier) -> rtwire_agent::Carrier {
    match carrier {
        Carrier::Udp => rtwire_agent::Carrier::Udp,
        Carrier::Rtdip => rtwire_agent::Carrier::Rtdip,
    }
}

/// Returns a program's carrier as the manager's.
pub(crate) fn carrier(carrier: rtwire_agent::Carrier) -> Carrier {
    match carrier {
        rtwire_agent::Carrier::Udp => Carrier::Udp,
        rtwire_agent::Carrier::Rtdip => Carrier::Rtdip,
    }
}
