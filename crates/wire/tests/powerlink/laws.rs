//! `parse(emit(x)) = x` for every value, with and without padding. No bytes cause a panic.

use proptest::prelude::*;
use rtwire_wire::MacAddress;
use rtwire_wire::powerlink::*;

fn request() -> impl Strategy<Value = SendRequest> {
    (0..8u8, 0..8u8, any::<[bool; 2]>()).prop_map(|(priority, pending, links)| SendRequest {
        priority,
        pending,
        links,
    })
}

/// Transaction, response, abort, segmentation, octets of all data, command, data.
type Command = (u8, bool, bool, u8, u32, u8, Vec<u8>);

#[derive(Clone, Debug)]
enum Kind {
    Soc(Soc),
    PReq(Request<'static>, bool, bool, u8, Vec<u8>),
    PRes(Response<'static>, bool, bool, u8, Vec<u8>),
    Soa(Soa, Option<[u32; 6]>),
    Ident(Ident),
    Status(Status<'static>, Vec<ErrorEntry>),
    NmtCommand(u8, Vec<u8>),
    NmtRequest(u8, u8, Vec<u8>),
    Sdo([u8; 4], Option<Command>),
    Sync([u32; 6]),
    Other(u8, Vec<u8>),
    Amni(Vec<u8>),
}

fn data() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..100)
}

fn kind() -> impl Strategy<Value = Kind> {
    let soc = (any::<[bool; 2]>(), any::<(u32, u32, u64)>()).prop_map(|(f, t)| {
        Kind::Soc(Soc {
            multiplexed_cycle_completed: f[0],
            prescaled_slot: f[1],
            net_time: NetTime {
                seconds: t.0,
                nanoseconds: t.1,
            },
            relative_time_us: t.2,
        })
    });
    let poll = || (any::<bool>(), any::<bool>(), any::<u8>(), data());
    let preq = (any::<bool>(), any::<[bool; 2]>(), poll()).prop_map(|(ea, links, p)| {
        let request = Request {
            exception_acknowledge: ea,
            links,
            poll: Poll::default(),
        };
        Kind::PReq(request, p.0, p.1, p.2, p.3)
    });
    let pres = (any::<u8>(), any::<bool>(), request(), poll()).prop_map(|(state, en, r, p)| {
        let response = Response {
            state: NmtState(state),
            exception_new: en,
            request: r,
            poll: Poll::default(),
        };
        Kind::PRes(response, p.0, p.1, p.2, p.3)
    });
    let soa = (any::<[u8; 5]>(), any::<[bool; 2]>(), any::<[u32; 6]>()).prop_map(|(o, f, s)| {
        let service = RequestedService(o[1] % 8);
        let soa = Soa {
            state: NmtState(o[0]),
            exception_acknowledge: f[0],
            exception_reset: f[1],
            service,
            target: o[2],
            version: o[3],
            redundancy: o[4],
            sync: None,
        };
        Kind::Soa(
            soa,
            (service == RequestedService::SYNC_REQUEST).then_some(s),
        )
    });
    let ident = (
        any::<[u32; 12]>(),
        any::<[u8; 32]>(),
        any::<[bool; 2]>(),
        request(),
    )
        .prop_map(|(n, host_name, f, request)| {
            Kind::Ident(Ident {
                exception_new: f[0],
                exception_clear: f[1],
                request,
                state: NmtState(n[0] as u8),
                flags: n[1] as u8,
                version: n[2] as u8,
                feature_flags: n[3],
                mtu: n[4] as u16,
                poll_in_octets: n[5] as u16,
                poll_out_octets: n[6] as u16,
                response_time_ns: n[7],
                device_type: n[8],
                vendor_id: n[9],
                vendor_extension_1: u64::from(n[10]) << 7,
                application_time: n[11],
                ip_address: n[11].to_be_bytes(),
                default_gateway: n[10].to_be_bytes(),
                host_name,
                vendor_extension_2: [n[9] as u8; 48],
                ..Ident::default()
            })
        });
    let entry = (1..=u16::MAX, any::<u16>(), any::<(u32, u32, [u8; 8])>()).prop_map(|(t, c, x)| {
        ErrorEntry {
            entry_type: t,
            code: c,
            time: NetTime {
                seconds: x.0,
                nanoseconds: x.1,
            },
            detail: x.2,
        }
    });
    let status = (
        any::<[bool; 2]>(),
        request(),
        any::<(u8, [u8; 8])>(),
        proptest::collection::vec(entry, 0..14),
    )
        .prop_map(|(f, request, s, errors)| {
            let status = Status {
                exception_new: f[0],
                exception_clear: f[1],
                request,
                state: NmtState(s.0),
                static_errors: s.1,
                errors: ErrorList::default(),
            };
            Kind::Status(status, errors)
        });
    let command = (
        any::<u8>(),
        any::<bool>(),
        any::<bool>(),
        0..4u8,
        any::<u32>(),
        1..=255u8,
        data(),
    );
    let sdo = (any::<[u8; 4]>(), proptest::option::of(command)).prop_map(|(s, c)| Kind::Sdo(s, c));
    prop_oneof![
        soc,
        preq,
        pres,
        soa,
        ident,
        status,
        (any::<u8>(), data()).prop_map(|(c, d)| Kind::NmtCommand(c, d)),
        (any::<(u8, u8)>(), data()).prop_map(|(c, d)| Kind::NmtRequest(c.0, c.1, d)),
        sdo,
        any::<[u32; 6]>().prop_map(Kind::Sync),
        (7..=255u8, data()).prop_map(|(s, d)| Kind::Other(s, d)),
        data().prop_map(Kind::Amni),
    ]
}

const fn connection(bits: u8) -> Connection {
    match bits % 4 {
        0 => Connection::None,
        1 => Connection::Initialisation,
        2 => Connection::Valid,
        _ => Connection::Request,
    }
}

/// Calls `check` with the message. The flag is true if padding may follow without becoming a part of the message.
fn with_message(kind: &Kind, check: impl FnOnce(Message<'_>, bool)) {
    let poll = |multiplexed, ready, pdo_version, payload| Poll {
        multiplexed,
        ready,
        pdo_version,
        payload,
    };
    match kind {
        Kind::Soc(soc) => check(Message::Soc(*soc), true),
        Kind::PReq(request, ms, rd, version, data) => check(
            Message::PReq(Request {
                poll: poll(*ms, *rd, *version, data),
                ..*request
            }),
            true,
        ),
        Kind::PRes(response, ms, rd, version, data) => check(
            Message::PRes(Response {
                poll: poll(*ms, *rd, *version, data),
                ..*response
            }),
            true,
        ),
        Kind::Soa(soa, sync) => {
            let sync = sync.map(|n| SyncRequest {
                control: n[0],
                response_time_first_ns: n[1],
                response_time_second_ns: n[2],
                delay_first_ns: n[3],
                delay_second_ns: n[4],
                fall_back_timeout_ns: n[5],
                address: MacAddress([n[0] as u8; 6]),
            });
            check(Message::Soa(Soa { sync, ..*soa }), true);
        }
        Kind::Ident(ident) => check(Message::Asnd(Asnd::Ident(*ident)), true),
        Kind::Status(status, errors) => {
            let bytes: Vec<u8> = errors.iter().flat_map(ErrorEntry::to_bytes).collect();
            let list = ErrorList::new(&bytes);
            assert_eq!(list.iter().collect::<Vec<_>>(), *errors);
            let status = Status {
                errors: list,
                ..*status
            };
            check(Message::Asnd(Asnd::Status(status)), true);
        }
        Kind::NmtCommand(command, data) => {
            let command = NmtCommand {
                command: NmtCommandId(*command),
                data,
            };
            check(Message::Asnd(Asnd::NmtCommand(command)), false);
        }
        Kind::NmtRequest(command, target, data) => {
            let request = NmtRequest {
                command: NmtCommandId(*command),
                target: *target,
                data,
            };
            check(Message::Asnd(Asnd::NmtRequest(request)), false);
        }
        Kind::Sdo(s, command) => {
            let command = command.as_ref().map(|c| SdoCommand {
                transaction: c.0,
                response: c.1,
                abort: c.2,
                segmentation: match c.3 {
                    0 => Segmentation::Expedited,
                    1 => Segmentation::Initiate { total_octets: c.4 },
                    2 => Segmentation::Segment,
                    _ => Segmentation::Complete,
                },
                command: SdoCommandId(c.5),
                data: &c.6,
            });
            let sequence = Sequence {
                receive_number: s[0] % 64,
                receive: connection(s[1]),
                send_number: s[2] % 64,
                send: connection(s[3]),
            };
            check(Message::Asnd(Asnd::Sdo(Sdo { sequence, command })), true);
        }
        Kind::Sync(n) => {
            let response = SyncResponse {
                status: n[0],
                latency_ns: n[1],
                delay_node: n[2],
                delay_ns: n[3],
                response_time_first_ns: n[4],
                response_time_second_ns: n[5],
            };
            check(Message::Asnd(Asnd::SyncResponse(response)), true);
        }
        Kind::Other(service, data) => {
            let service = AsndService(*service);
            check(Message::Asnd(Asnd::Other { service, data }), false);
        }
        Kind::Amni(data) => check(Message::Amni(data), false),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn what_is_written_is_read_back(kind in kind(), addresses: [u8; 12], nodes: (u8, u8)) {
        let mut addresses = addresses.chunks(6).map(|a| MacAddress(a.try_into().unwrap()));
        let (destination_address, source_address) =
            (addresses.next().unwrap(), addresses.next().unwrap());
        with_message(&kind, |message, may_pad| {
            let packet = Packet {
                destination_address,
                source_address,
                destination: nodes.0,
                source: nodes.1,
                message,
            };
            let mut out = [0xaa; 1600];
            let octets = packet.emit(&mut out).unwrap();
            assert_eq!(Packet::parse(&out[..octets]), Ok(packet));
            if may_pad {
                let padded = pad(&mut out, octets, 400);
                assert_eq!(padded, 400.max(octets));
                assert_eq!(Packet::parse(&out[..padded]), Ok(packet));
            }
            // One octet less, and it does not fit. A shortened frame is refused, or means something else.
            assert!(packet.emit(&mut out[..octets - 1]).is_err());
            for cut in 0..octets {
                let _ = Packet::parse(&out[..cut]);
            }
        });
    }

    #[test]
    fn any_bytes_are_looked_at_without_a_panic(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
        powerlink: bool,
        message in 0..16u8,
        service in 0..8u8,
    ) {
        if powerlink && bytes.len() > 17 {
            bytes[12..15].copy_from_slice(&[0x88, 0xab, message]);
            bytes[17] = service;
        }
        let view = View::new(&bytes);
        let mut end = 0;
        view.fields(&mut |field| {
            end = end.max(field.at + field.octets);
        });
        prop_assert!(end <= bytes.len());
        let _ = (view.state(), view.requested(), view.send_request(), view.payload(), view.ready());
        if let Ok(packet) = Packet::parse(&bytes) {
            let mut again = vec![0; bytes.len()];
            let octets = packet.emit(&mut again).unwrap();
            prop_assert_eq!(Packet::parse(&again[..octets]), Ok(packet));
        }
        let _ = Sdo::parse_datagram(&bytes);
    }
}
