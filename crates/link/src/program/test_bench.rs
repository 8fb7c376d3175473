//! Common parts of the receive program's tests: the program without an interface (`BPF_PROG_TEST_RUN`), and frames
//! for it.

use super::attach::{PROGRAM, load};
use super::*;
use rtwire_sys::bpf::BpfObject;
use rtwire_wire::rtdip::{Header, Semantics};
use rtwire_wire::{MacAddress, Pcp, VlanTag, ethernet};
use std::sync::atomic::AtomicU32;

pub(super) const DROP: u32 = 1;
pub(super) const PASS: u32 = 2;
pub(super) const TX: u32 = 3;
pub(super) const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
pub(super) const PEER: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
pub(super) const ASKING: u16 = FIRST_ASKING_PORT;

/// The program, not attached to an interface.
pub(super) struct Bench {
    pub(super) object: BpfObject,
    pub(super) program: ReceiveProgram,
    out: Vec<u8>,
}

impl Bench {
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // No interface has this index, so no other test holds locks of its ports.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let interface = Interface {
            name: "test".to_owned(),
            index: std::process::id() * 100 + number,
            mac: OWN.0,
            mtu: 1500,
            up: true,
        };
        let (object, shared) = load(interface, EtherType::RTDIP).expect("these tests need root");
        Self {
            object,
            program: ReceiveProgram {
                shared: Arc::new(shared),
            },
            out: Vec::new(),
        }
    }

    pub(super) fn run(&mut self, frame: &[u8]) -> u32 {
        self.object
            .test_run_xdp(PROGRAM, frame, &mut self.out, 1)
            .unwrap()
            .verdict
    }

    /// Returns the frame as the last run left it.
    pub(super) fn left(&self) -> &[u8] {
        &self.out
    }

    /// Runs a frame that must be passed on to Linux unchanged.
    pub(super) fn passes(&mut self, frame: &[u8]) {
        assert_eq!(self.run(frame), PASS);
        assert_eq!(self.out, frame);
    }

    /// Runs a question; returns the answer's headers and data.
    pub(super) fn answer(&mut self, frame: &[u8]) -> (ethernet::Header, Header, Vec<u8>) {
        assert_eq!(self.run(frame), TX);
        parsed(&self.out)
    }
}

fn parsed(octets: &[u8]) -> (ethernet::Header, Header, Vec<u8>) {
    let frame = ethernet::Frame::new(octets).unwrap();
    let header = ethernet::Header {
        destination: frame.destination(),
        source: frame.source(),
        vlan: frame.vlan(),
        ether_type: frame.ether_type(),
    };
    let (rtdip, data) = Header::parse(frame.payload()).unwrap();
    (header, rtdip, data.to_vec())
}

/// The parts of a frame.
#[derive(Clone)]
pub(super) struct Build {
    pub(super) to: MacAddress,
    pub(super) from: MacAddress,
    pub(super) vlan: Option<VlanTag>,
    pub(super) header: Header,
}

pub(super) fn build(port: u16, sequence: u32) -> Build {
    Build {
        to: OWN,
        from: PEER,
        vlan: None,
        header: Header {
            semantics: Semantics::Newest,
            priority: Pcp::new(5).unwrap(),
            destination_port: port,
            source_port: ASKING,
            sequence,
            key: 7,
            time_ns: None,
        },
    }
}

impl Build {
    pub(super) fn frame(&self, data: &[u8]) -> Vec<u8> {
        let ethernet = ethernet::Header {
            destination: self.to,
            source: self.from,
            vlan: self.vlan,
            ether_type: EtherType::RTDIP,
        };
        let mut frame = vec![0; 2048];
        let at = ethernet.emit(&mut frame).unwrap();
        let end = at + self.header.emit(data, &mut frame[at..]).unwrap();
        frame.truncate(end.max(60 + at - 14));
        frame
    }
}

pub(super) fn tag() -> Option<VlanTag> {
    VlanTag::new(Pcp::new(6).unwrap(), 12)
}
