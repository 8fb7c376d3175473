//! Service data over UDP, with a node whose address this host reaches: by `plk0` or a router (DS 301, 6.3.2.1).

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use rtwire_powerlink_station::powerlink::sdo::{SdoClient, SdoFailure, SdoJob, SdoOutcome};
use rtwire_wire::powerlink::{SDO_UDP_PORT, Sdo};

use super::{Failure, LACKING, REFUSED};

/// The bytes of a frame behind the Ethernet header that every node accepts.
const MTU: usize = 300;
/// The time between checks for retransmissions.
const LOOK: Duration = Duration::from_millis(10);
/// NMT_EPLNodeID_REC/NodeID_U8: the node's number.
const NUMBER: SdoJob = SdoJob::Read(0x1f93, 1);

/// Does one service data job with the node at an address, if its number is the expected one.
pub(super) fn sdo(
    at: Ipv4Addr,
    node: u8,
    job: SdoJob,
    timeout: Duration,
) -> Result<SdoOutcome, Failure> {
    let lacking = |error: io::Error| (LACKING, format!("{at}: {error}"));
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(lacking)?;
    socket.connect((at, SDO_UDP_PORT)).map_err(lacking)?;
    socket.set_read_timeout(Some(LOOK)).map_err(lacking)?;
    let begun = Instant::now();
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4);
    let mut client = SdoClient::new(MTU, ns(timeout));
    let mut done = |job| -> io::Result<SdoOutcome> {
        client.submit(ns(begun.elapsed()), job);
        while begun.elapsed() < timeout {
            exchange(&mut client, &socket, ns(begun.elapsed()))?;
            if let Some((_, outcome)) = client.outcome() {
                return Ok(outcome);
            }
        }
        Ok(SdoOutcome::Failed(SdoFailure::Broken))
    };
    let outcome = match done(NUMBER).map_err(|error| unheard(at, &error))? {
        SdoOutcome::Done(number) if number != [node] => {
            let number = number.first().copied().unwrap_or_default();
            let what = format!("{at} is node {number}, not node {node}");
            return Err((REFUSED, what));
        }
        SdoOutcome::Failed(SdoFailure::Broken) => Err(ErrorKind::TimedOut.into()),
        // A device that does not report its number is asked all the same.
        _ => done(job),
    };
    let outcome = outcome.map_err(|error| unheard(at, &error))?;
    // A last message closes the connection.
    let _ = exchange(&mut client, &socket, ns(begun.elapsed()));
    Ok(outcome)
}

fn unheard(at: Ipv4Addr, error: &io::Error) -> Failure {
    let why = match error.kind() {
        ErrorKind::TimedOut => "does not answer in time".to_owned(),
        ErrorKind::ConnectionRefused => "does not accept service data by UDP".to_owned(),
        _ => format!("cannot be reached: {error}"),
    };
    (REFUSED, format!("{at} {why}"))
}

/// Sends waiting messages, and takes one answer if it comes soon.
fn exchange(client: &mut SdoClient, socket: &UdpSocket, now_ns: u64) -> io::Result<()> {
    client.moment(now_ns);
    let mut room = [0; 1514];
    let mut octets = 0;
    while client.next_frame(now_ns, &mut |sdo| {
        octets = sdo.emit_datagram(&mut room).unwrap_or_default();
    }) {
        socket.send(room.get(..octets).unwrap_or_default())?;
    }
    match socket.recv(&mut room) {
        Ok(octets) => {
            if let Ok(sdo) = Sdo::parse_datagram(room.get(..octets).unwrap_or_default()) {
                client.receive(now_ns, &sdo);
            }
            Ok(())
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(()),
        Err(error) => Err(error),
    }
}
