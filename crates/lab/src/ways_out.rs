//! The ways out of a lab's hosts.
//!
//! The emulated link begins behind the host ([`crate::fabric`]), so frames that go past the host's queueing discipline meet it
//! all the same, with its rate and its order of priorities. What they do not have is the kernel's stamp of entering a queue.

use rtwire_plan::{Network, Stream, Transport};

use crate::LabError;
use crate::assignment::{Assignment, TransmitPath};

/// The way of a stream's frames; datagrams have one only.
fn of(stream: &Stream, wanted: TransmitPath) -> TransmitPath {
    match stream.transport {
        Transport::Udp => TransmitPath::Qdisc,
        Transport::Rtdip => wanted,
    }
}

/// Refuses what the hosts' interfaces cannot carry: each has one transmit queue, and AF_XDP one sender for each.
///
/// # Errors
/// [`LabError::OneSender`].
pub(crate) fn check(network: &Network, wanted: TransmitPath) -> Result<(), LabError> {
    let by_xdp = |stream: &&Stream| of(stream, wanted) == TransmitPath::Xdp;
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

/// Sets the way of every stream; best effort goes through the queue.
pub(crate) fn set(assignments: &mut [Assignment], network: &Network, wanted: TransmitPath) {
    let talkers = assignments.iter_mut().flat_map(|host| &mut host.talkers);
    for task in talkers {
        if let Some(stream) = network.streams.get(task.stream) {
            task.path = of(stream, wanted);
        }
    }
}

/// How the report names the way of a stream that does not go through the queue.
pub(crate) fn name(stream: &Stream, wanted: TransmitPath) -> Option<String> {
    let path = of(stream, wanted);
    (path != TransmitPath::Qdisc).then(|| path.name().to_owned())
}

/// What the report says of the measurement then.
pub(crate) fn note(wanted: TransmitPath) -> Option<String> {
    (wanted != TransmitPath::Qdisc).then(|| {
        format!(
            "What was sent by `{}` has no transmit stamp of the kernel: its network delay begins when the talker read its clock \
             before the send call, so it contains that call.",
            wanted.name()
        )
    })
}
