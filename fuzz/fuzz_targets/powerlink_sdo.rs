//! A client and a server of service data, with messages lost, doubled, late, or of any bytes between them. Neither panics,
//! no job waits for ever, and where nobody forges messages, what is read is what was written, or what was there before.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtwire_powerlink::AbortCode;
use rtwire_powerlink::sdo::{ObjectAccess, Peer, SdoClient, SdoJob, SdoOutcome, SdoServer};
use rtwire_wire::powerlink::Sdo;
use std::collections::BTreeMap;

#[derive(Default)]
struct Store(BTreeMap<(u16, u8), Vec<u8>>);

impl ObjectAccess for Store {
    fn read_object(&mut self, index: u16, subindex: u8) -> Result<Vec<u8>, AbortCode> {
        self.0
            .get(&(index, subindex))
            .cloned()
            .ok_or(AbortCode::NO_OBJECT)
    }

    fn write_object(&mut self, index: u16, subindex: u8, data: &[u8]) -> Result<(), AbortCode> {
        if self.0.len() < 64 {
            self.0.insert((index, subindex), data.to_vec());
        }
        Ok(())
    }
}

const TIMEOUT_NS: u64 = 1_000_000_000;
const PEER: Peer = Peer::Node(240);

fn octets(sdo: &Sdo<'_>) -> Vec<u8> {
    let mut out = vec![0; 2000];
    let length = sdo
        .emit_datagram(&mut out)
        .expect("what is sent can be written");
    out.truncate(length);
    out
}

struct Ends {
    client: SdoClient,
    server: SdoServer,
    store: Store,
    now_ns: u64,
}

impl Ends {
    fn of_client(&mut self) -> Option<Vec<u8>> {
        let mut frame = None;
        self.client
            .next_frame(self.now_ns, &mut |sdo| frame = Some(octets(sdo)));
        frame
    }

    fn of_server(&mut self) -> Option<Vec<u8>> {
        let mut frame = None;
        self.server
            .next_frame(self.now_ns, true, &mut |_, sdo| frame = Some(octets(sdo)));
        frame
    }

    fn to_server(&mut self, frame: &[u8]) {
        if let Ok(sdo) = Sdo::parse_datagram(frame) {
            self.server
                .receive(self.now_ns, PEER, &sdo, &mut self.store);
        }
    }

    fn to_client(&mut self, frame: &[u8]) {
        if let Ok(sdo) = Sdo::parse_datagram(frame) {
            self.client.receive(self.now_ns, &sdo);
        }
    }

    fn pass(&mut self, ns: u64) {
        self.now_ns += ns;
        self.client.moment(self.now_ns);
        self.server.moment(self.now_ns);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut ends = Ends {
        client: SdoClient::new(300, TIMEOUT_NS),
        server: SdoServer::new(300, TIMEOUT_NS),
        store: Store::default(),
        now_ns: 0,
    };
    let (old, new) = (vec![1; 700], vec![2; 1500]);
    ends.store.0.insert((0x2000, 0), old.clone());
    let mut jobs = vec![
        ends.client.submit(0, SdoJob::Write(0x2000, 0, new.clone())),
        ends.client.submit(0, SdoJob::Read(0x2000, 0)),
        ends.client
            .submit(0, SdoJob::ReadMultiple(vec![(0x2000, 0), (0x2001, 0)])),
    ];
    let read = jobs[1];
    let mut kept: Option<(bool, Vec<u8>)> = None;
    let mut forged = false;
    let mut rest = bytes;
    while let [what, after @ ..] = rest {
        rest = after;
        match what % 8 {
            0 | 1 => {
                if let Some(frame) = ends.of_client() {
                    ends.to_server(&frame);
                    kept = Some((true, frame));
                }
            }
            2 | 3 => {
                if let Some(frame) = ends.of_server() {
                    ends.to_client(&frame);
                    kept = Some((false, frame));
                }
            }
            // Lost.
            4 => drop(if what & 8 == 0 {
                ends.of_client()
            } else {
                ends.of_server()
            }),
            // The last one comes again.
            5 => match kept.clone() {
                Some((true, frame)) => ends.to_server(&frame),
                Some((false, frame)) => ends.to_client(&frame),
                None => {}
            },
            6 => {
                let (frame, after) = rest.split_at(usize::from(what >> 3).min(rest.len()));
                rest = after;
                forged = true;
                ends.to_server(frame);
                ends.to_client(frame);
            }
            _ => ends.pass(u64::from(what >> 3) * 10_000_000),
        }
    }
    // From here on nothing goes wrong any more: all jobs come to an end.
    for _ in 0..400 {
        while let Some(frame) = ends.of_client() {
            ends.to_server(&frame);
        }
        while let Some(frame) = ends.of_server() {
            ends.to_client(&frame);
        }
        ends.pass(TIMEOUT_NS / 10);
    }
    assert!(ends.client.is_idle(), "a job waits for ever");
    while let Some((id, outcome)) = ends.client.outcome() {
        let before = jobs.len();
        jobs.retain(|job| *job != id);
        assert_eq!(
            jobs.len() + 1,
            before,
            "an outcome for each job, and one only"
        );
        if let (false, true, SdoOutcome::Done(data)) = (forged, id == read, outcome) {
            assert!(
                data == old || data == new,
                "neither what was there nor what was written"
            );
        }
    }
    assert!(jobs.is_empty(), "a job without outcome");
});
