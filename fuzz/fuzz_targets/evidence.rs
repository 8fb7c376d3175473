//! Evidence of a run: no bytes make the reader panic, loop, or eat memory, and what is read is written as it was.
//!
//! A changed byte fails its check at once. So a part of the inputs is given as payloads of blocks with right checks.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rtwire_measure::evidence::{
    ArrivalRecord, ClockBasis, Encoder, FORMAT, Header, HostEvidence, ListenerEntry, SentRecord,
    StampKind, StampRecord, TalkerEntry, read,
};
use rtwire_measure::report::Machine;

fn header() -> Header {
    let name = "s".to_owned();
    Header {
        format: FORMAT,
        run: name.clone(),
        network: name.clone(),
        plan_id: name.clone(),
        epoch: 1,
        host: name.clone(),
        interface: name.clone(),
        open_ns: 0,
        start_ns: 0,
        planned_ns: None,
        talkers: vec![TalkerEntry {
            stream: name.clone(),
            path: name.clone(),
            stamps: StampKind::Kernel,
            paced: true,
        }],
        listeners: vec![ListenerEntry {
            stream: name.clone(),
            path: name.clone(),
        }],
        clock: ClockBasis::Unknown,
        stamps: None,
        boot_id: name,
        machine: Machine::default(),
    }
}

/// The evidence that was read can be written again, and then reads as the same.
fn again(evidence: &HostEvidence) {
    let written = evidence.to_bytes();
    // The order of blocks may differ, their content not.
    assert_eq!(read(&written).as_ref(), Ok(evidence));
    let _ = (
        evidence.account.clock_uncertainty_ns(),
        evidence.account.known_to_ns(),
    );
}

fuzz_target!(|input: &[u8]| {
    if let Ok(evidence) = read(input) {
        again(&evidence);
    }
    // Blocks with right checks around arbitrary content.
    let mut encoder = Encoder::default();
    let mut file = encoder.header(&header());
    for part in input
        .split(|byte| *byte == b'\n')
        .filter(|part| !part.is_empty())
    {
        file.extend(encoder.raw(part[0], &part[1..]));
    }
    if let Ok(evidence) = read(&file) {
        again(&evidence);
    }
    // Records of any stream, of any values.
    let mut encoder = Encoder::default();
    let mut file = encoder.header(&header());
    for bytes in input.chunks_exact(9) {
        let number = u64::from_le_bytes([
            bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7], bytes[8],
        ]);
        let (at, sequence) = (usize::from(bytes[0] & 3), number as u32);
        file.extend(match bytes[0] >> 6 {
            0 => encoder.sent(
                at,
                &[SentRecord {
                    sequence,
                    called_ns: number,
                    ..SentRecord::default()
                }],
            ),
            1 => encoder.stamps(
                at,
                &[StampRecord {
                    sequence,
                    stamp_ns: number,
                }],
            ),
            _ => encoder.arrivals(
                at,
                &[ArrivalRecord {
                    sequence,
                    sender_ns: number,
                    ..ArrivalRecord::default()
                }],
            ),
        });
    }
    if let Ok(evidence) = read(&file) {
        again(&evidence);
    }
});
