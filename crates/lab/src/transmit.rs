//! The transmit paths of a lab's hosts.
//!
//! The emulated link begins behind the host ([`crate::fabric`]). So frames that bypass the host's queueing discipline meet
//! its rate and its order of priorities too. Only the kernel's timestamp of entering a queue is missing.

use rtwire_plan::{Network, Stream, Transport};
use rtwire_session::TxPath;

use crate::LabError;

/// Returns the transmit path of a stream's frames; datagrams have only one.
pub(crate) fn of(stream: &Stream, wanted: TxPath) -> TxPath {
    match stream.transport {
        Transport::Udp => TxPath::Qdisc,
        Transport::Rtdip => wanted,
    }
}

/// Refuses two AF_XDP streams at one host: its interface has one transmit queue, and AF_XDP one sender for each queue. Refuses
/// ways past an agent's queue.
///
/// # Errors
/// [`LabError::OneSender`], [`LabError::PastTheAgent`].
pub(crate) fn check(network: &Network, wanted: TxPath) -> Result<(), LabError> {
    if network.manager_host.is_some() && wanted != TxPath::Qdisc {
        return Err(LabError::PastTheAgent {
            path: wanted.name(),
        });
    }
    let by_xdp = |stream: &&Stream| of(stream, wanted) == TxPath::Xdp;
    let streams: Vec<&Stream> = network.streams.iter().filter(by_xdp).collect();
    for (at, stream) in streams.iter().enumerate() {
        let earlier = streams[..at].iter();
        if let Some(other) = earlier
            .into_iter()
            .find(|other| other.talker == stream.talker)
        {
            return Err(LabError::OneSender {
                host: stream.talker.clone(),
                streams: [other.name.clone(), stream.name.clone()],
            });
        }
    }
    Ok(())
}

/// Returns the name of a path that bypasses the queue, for the report.
pub(crate) fn name(stream: &Stream, wanted: TxPath) -> Option<String> {
    let path = of(stream, wanted);
    (path != TxPath::Qdisc).then(|| path.name().to_owned())
}

/// Returns a note on the measurement of such a path, for the report.
pub(crate) fn note(wanted: TxPath) -> Option<String> {
    (wanted != TxPath::Qdisc).then(|| {
        format!(
            "What was sent by `{}` has no transmit stamp of the kernel: its network delay begins when the talker read its clock \
             before the send call, so it contains that call.",
            wanted.name()
        )
    })
}
