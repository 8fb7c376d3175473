//! Several PDOs in one frame: more than 254 objects, and what does not fit together.

use crate::harness::*;
use rtwire_powerlink::cn::{ControlledConfig, Limits};
use rtwire_powerlink::od::DataType;
use rtwire_powerlink::{ControlledNode, Error, ObjectDictionary};
use rtwire_wire::Node as _;
use rtwire_wire::powerlink::{Message, Packet};

/// A dictionary with 400 mapped bytes, in two PDOs of each direction.
fn two_pdos() -> ObjectDictionary {
    let mut d = ObjectDictionary::controlled_node();
    d.set_number(0x1f98, 4, 400);
    d.set_number(0x1f98, 5, 400);
    for n in 0..400_u16 {
        d.insert_variable(0x6000 + n, "input", DataType::Unsigned(1));
        d.insert_variable(0x7000 + n, "output", DataType::Unsigned(1));
        let (pdo, subindex) = (n / 200, (n % 200 + 1) as u8);
        d.set_number(0x1a00 + pdo, subindex, mapping(0x6000 + n, n.into(), 1));
        d.set_number(0x1600 + pdo, subindex, mapping(0x7000 + n, n.into(), 1));
    }
    for pdo in 0..2 {
        d.set_number(0x1a00 + pdo, 0, 200);
        d.set_number(0x1600 + pdo, 0, 200);
    }
    d
}

fn node(dictionary: ObjectDictionary) -> Result<ControlledNode, Error> {
    ControlledNode::new(ControlledConfig {
        node: 1,
        address: address(1),
        dictionary,
        limits: Limits {
            silence_ns: 0,
            ..Limits::default()
        },
    })
}

#[test]
fn pdos_of_one_frame_are_one_stretch_of_the_image() {
    let cn = node(two_pdos()).unwrap();
    let image = cn.image();
    assert_eq!((image.receive.len(), image.transmit.len()), (1, 1));
    assert_eq!((image.inputs.len(), image.outputs.len()), (400, 400));
    assert_eq!(image.place(0x6000 + 399, 0), Some((true, 399..400)));
    assert_eq!(image.place(0x7000 + 200, 0), Some((false, 200..201)));
}

#[test]
fn the_response_has_the_objects_of_both() {
    let mut cn = node(two_pdos()).unwrap();
    let mut port = crate::port::Port::default();
    cn.start(MS, &mut port);
    for (n, output) in cn.image_mut().outputs.iter_mut().enumerate() {
        *output = (n % 251) as u8;
    }
    let stations = vec![
        Station::Mn(Box::new(mn(&mn_cdc(2000, &[1], |cdc| {
            cdc.push_data(0x1f22, 1, Vec::new());
            cdc.push(0x1f8d, 1, 400, 2);
        })))),
        Station::Cn(Box::new(cn)),
    ];
    let mut network = Network::new(stations);
    network.run_till(5 * SECOND, "operational", Network::operational);
    for (n, output) in network.cn(1).image_mut().outputs.iter_mut().enumerate() {
        *output = (n % 251) as u8;
    }
    network.cn(1).commit();
    network.record = Some(Vec::new());
    network.run(10 * MS);
    let frames = network.record.take().unwrap();
    let response =
        frames
            .iter()
            .rev()
            .find_map(|(_, frame)| match Packet::parse(frame).ok()?.message {
                Message::PRes(response) => Some(response.poll.payload.to_vec()),
                _ => None,
            });
    let expected: Vec<u8> = (0..400).map(|n| (n % 251) as u8).collect();
    assert_eq!(response.unwrap(), expected);
}

#[test]
fn what_does_not_fit_in_one_frame_is_refused() {
    let refused = |change: &dyn Fn(&mut ObjectDictionary)| {
        let mut d = two_pdos();
        change(&mut d);
        node(d).unwrap_err().to_string()
    };
    // Two objects in the same byte; a version that only half of the frame would have; a frame that is too short.
    let twice = refused(&|d| d.set_number(0x1a01, 7, mapping(0x6000, 5, 1)));
    let versions = refused(&|d| d.set_number(0x1801, 2, 0x10));
    let long = refused(&|d| d.set_number(0x1f98, 5, 399));
    for message in [&twice, &versions, &long] {
        assert!(message.starts_with("object 1A01h/0"), "{message}");
    }
    assert!(long.contains("longer than"), "{long}");
}

#[test]
fn a_node_that_is_told_no_cycle_observes_it() {
    for (cycle_us, watchdog) in [(1000, 20), (10_000, 5)] {
        let mut dictionary = cn_dictionary();
        dictionary.set_number(0x1f82, 0, 0x1); // no service data: nobody writes a cycle to it
        let cn = ControlledNode::new(ControlledConfig {
            node: 1,
            address: address(1),
            dictionary,
            limits: Limits {
                silence_ns: 0,
                watchdog_cycles: 5,
                watchdog_least_ns: 20 * MS,
                ..Limits::default()
            },
        });
        let manager = mn(&mn_cdc(cycle_us, &[1], |_| ()));
        let stations = vec![
            Station::Mn(Box::new(manager)),
            Station::Cn(Box::new(cn.unwrap())),
        ];
        let mut network = Network::new(stations);
        network.run_till(9 * SECOND, "operational", Network::operational);
        network.run(SECOND);
        assert_eq!(network.cn(1).dictionary().number(0x1006, 0), 0);
        assert_eq!(network.cn(1).watchdog_cycles(), watchdog, "{cycle_us} µs");
        // It notices the end of the cycle by what it has observed.
        network.cut_ns[0] = u64::MAX;
        network.run(100 * cycle_us * US);
        assert!(network.cn(1).statistics().lost_soc > 0);
    }
}
