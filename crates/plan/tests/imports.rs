//! Networks of other planners: their descriptions, the notes, the refusals, and bounds equal to the published ones.

use proptest::prelude::*;
use rtwire_plan::import::{Imported, saihu, tsnkit};
use rtwire_plan::schedule::check::faults;
use rtwire_plan::{Analysis, Options, Plan, plan, read};
use serde_json::{Value, json};

const STREAMS: &str = "stream,src,dst,size,period,deadline,jitter\n\
    0,10,[12],400,1000000,1000000,0\n\
    1,11,\"[10, 12]\",100,500000,500000,500000\n\
    2,12,[10],1500,2000000,1000000,1000000\n";
const TOPOLOGY: &str = "link,q_num,rate,t_proc,t_prop\n\
    \"(0, 1)\",8,1,2000,0\n\"(1, 0)\",8,1,2000,0\n\"(1, 2)\",8,1,2000,0\n\"(2, 1)\",8,1,2000,0\n\
    \"(0, 10)\",8,1,2000,0\n\"(10, 0)\",8,1,2000,0\n\"(1, 11)\",8,1,2000,0\n\"(11, 1)\",8,1,2000,0\n\
    \"(2, 12)\",8,1,2000,0\n\"(12, 2)\",8,1,2000,0\n";

fn planned(imported: &Imported, analysis: Analysis) -> Plan {
    let network = read(&imported.description, "imported.toml", &[]).unwrap();
    let options = Options {
        analysis,
        ..Options::default()
    };
    plan(&network, &options).unwrap_or_else(|refusal| panic!("{refusal}"))
}

#[test]
fn streams_of_tsnkit_are_scheduled_without_waiting() {
    let imported = tsnkit(STREAMS, TOPOLOGY).unwrap();
    assert_eq!(imported.notes, Vec::<String>::new());
    let plan = planned(&imported, Analysis::default());
    let network = read(&imported.description, "imported.toml", &[]).unwrap();
    assert_eq!(faults(&network, &plan), Vec::<String>::new());
    // As many links at 8 ns for each byte, and 2 us in each switch.
    let expected = [
        ("f0", "n12", 4 * 3_200 + 3 * 2_000),
        ("f1", "n10", 3 * 800 + 2 * 2_000),
        ("f1", "n12", 3 * 800 + 2 * 2_000),
        ("f2", "n10", 4 * 12_000 + 3 * 2_000),
    ];
    let promises = plan.streams.iter().flat_map(|stream| {
        let named = stream.promises.iter();
        named.map(|promise| (stream.name.as_str(), promise))
    });
    let found: Vec<_> = promises
        .map(|(name, promise)| (name, promise.listener.as_str(), promise.delay_ns.unwrap()))
        .collect();
    assert_eq!(found, expected);
    assert_eq!(plan.streams[0].promises[0].jitter_ns, Some(0));
}

#[test]
fn what_tsnkit_says_and_we_cannot_is_told() {
    let topology = TOPOLOGY
        .replace("\"(11, 1)\",8,1,2000,0\n", "")
        .replace("\"(2, 1)\",8,1,2000", "\"(2, 1)\",4,10,3000");
    let imported = tsnkit(&STREAMS.replace(",100,", ",40,"), &topology).unwrap();
    assert_eq!(
        imported.notes,
        [
            "t_proc of the links to node 1 differs: each frame takes 2000 to 3000 ns",
            "q_num of the links from node 2 differs: all have the least",
            "the directions of link (1, 2) differ: both take the slower rate and the longer way",
            "link (1, 11) has one direction: the other is taken to be the same",
            "frames of 40 B are 60 B: no Ethernet frame is smaller",
        ]
    );
    for note in &imported.notes {
        assert!(imported.description.contains(note), "{note}");
    }
}

#[test]
fn faulty_tables_say_where_and_what_would_be_right() {
    let of = |streams: &str, topology: &str| tsnkit(streams, topology).unwrap_err().to_string();
    let cases = [
        (
            of(&STREAMS.replace("size", "bytes"), TOPOLOGY),
            "streams, line 1: there is no column \"size\"; expected are stream,src,dst,size,period,deadline,jitter",
        ),
        (
            of(&STREAMS.replace(",400,", ",4.5,"), TOPOLOGY),
            "streams, line 2: size is \"4.5\", but expected is a whole number from 1 to 1542",
        ),
        (
            of(&STREAMS.replace("[12]", "12"), TOPOLOGY),
            "streams, line 2: dst is \"12\", but expected are numbers of nodes in brackets",
        ),
        (
            of(&STREAMS.replace("0,10,", "0,1,"), TOPOLOGY),
            "streams, line 2: node 1 is no end station of the topology: those have one link",
        ),
        (
            of(&STREAMS.replace("2,12,", "0,12,"), TOPOLOGY),
            "streams, line 4: stream 0 is there twice",
        ),
        (
            of(STREAMS, &TOPOLOGY.replace("(1, 0)", "(0, 1)")),
            "topology, line 3: link (0, 1) is there twice",
        ),
        (
            of(STREAMS, &TOPOLOGY.replace("(1, 0)", "(1, 1)")),
            "topology, line 3: the link joins node 1 with itself",
        ),
        (
            of(STREAMS, "link,q_num,rate,t_proc,t_prop\n"),
            "topology, line 1: there is nothing below the titles",
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
}

/// Returns a network of the vectors in Saihu's format.
fn as_saihu(network: &Value) -> String {
    let frame_bits = network["frame_bits"].as_u64().unwrap();
    let flows: Vec<Value> = network["flows"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(number, flow)| {
            let path = flow["path"].as_array().unwrap().iter();
            let path: Vec<String> = path.map(|at| format!("s{at}")).collect();
            let number_of = |key: &str| flow[key].as_str().unwrap().parse::<u64>().unwrap();
            json!({
                "name": format!("f{number}"),
                "path": path,
                "arrival_curve": { "bursts": [number_of("b")], "rates": [number_of("r")] },
                "max_packet_length": format!("{frame_bits}b"),
                "min_packet_length": format!("{}B", frame_bits / 8),
            })
        })
        .collect();
    let paths = flows.iter().flat_map(|flow| flow["path"].as_array());
    let ports = paths.map(Vec::len).max().unwrap();
    let servers: Vec<Value> = (0..ports)
        .map(|at| {
            json!({
                "name": format!("s{at}"),
                "service_curve": { "latencies": ["5us"], "rates": ["100Mbps"] },
                "capacity": 0.1,
                "rate_unit": "Gbps",
            })
        })
        .collect();
    let head = json!({
        "name": network["id"], "multiplexing": "FIFO",
        "time_unit": "us", "data_unit": "b", "rate_unit": "bps",
    });
    json!({ "network": head, "flows": flows, "servers": servers }).to_string()
}

/// Compares with recorded bounds of total flow analysis for store-and-forward networks, without and with line shaping.
#[test]
fn imported_networks_have_the_bounds_that_were_recorded_for_them() {
    let all: Value =
        serde_json::from_str(include_str!("../../../tests/captures/bounds.json")).unwrap();
    let networks = all["networks"].as_array().unwrap().iter();
    let mut compared = 0;
    for network in networks.filter(|network| network.get("store_and_forward").is_some()) {
        let imported = saihu(&as_saihu(network)).unwrap();
        assert_eq!(imported.notes, Vec::<String>::new());
        for (method, analysis) in [("tfa", Analysis::Tfa), ("tfapp", Analysis::TfaPlusPlus)] {
            let recorded = &network["store_and_forward"][method]["foi0_us"];
            let plan = planned(&imported, analysis);
            let ns = plan.streams[0].promises[0].delay_ns.unwrap() as f64;
            let more_ns = ns - recorded.as_f64().unwrap() * 1e3;
            // The links of hosts take 13 ns, and add some bits of jitter to the others.
            assert!(
                (0.0..200.0).contains(&more_ns),
                "{} {method}: {more_ns} ns more than recorded",
                network["id"]
            );
            compared += 1;
        }
    }
    assert_eq!(compared, 18);
}

/// Three servers and three flows with the numbers of Saihu's demonstration (`example/demo.json`). It has packets
/// longer than bursts, links faster than servers, and curves of several lines.
const DEMO: &str = r#"{
    "network": {"name": "demo", "multiplexing": "FIFO", "time_unit": "us", "data_unit": "B", "rate_unit": "Mbps",
                "min_packet_length": 4},
    "flows": [
        {"name": "f0", "path": ["s0-o0", "s1-o0"], "max_packet_length": 50, "rate_unit": "kbps",
         "arrival_curve": {"bursts": [10, "2kB"], "rates": ["10kbps", 0.5]}},
        {"name": "f1", "path": ["s0-o0", "s1-o1"], "max_packet_length": 50,
         "arrival_curve": {"bursts": ["10B"], "rates": ["10kbps"]}},
        {"name": "f2", "path": ["s1-o0"], "max_packet_length": "50B",
         "arrival_curve": {"bursts": [10], "rates": ["10kbps"]}}],
    "servers": [
        {"name": "s0-o0", "service_curve": {"latencies": [10, 1000], "rates": [4, "50Mbps"]}, "capacity": 100},
        {"name": "s1-o0", "service_curve": {"latencies": [10, "1ms"], "rates": [4, 50]}, "capacity": 100},
        {"name": "s1-o1", "service_curve": {"latencies": [10], "rates": ["4Mbps"]}, "capacity": 100}]
}"#;

#[test]
fn the_demonstration_of_saihu_is_planned_and_what_differs_is_told() {
    let imported = saihu(DEMO).unwrap();
    let told = imported.notes.join("\n");
    for expected in [
        "of the arrival curve of f0 only the bucket with the rate 500 bit/s",
        "of the service curve of s0-o0 only the line with the rate 4000000 bit/s",
        "s0-o0 serves 4000000 bit/s and may send at 100000000 bit/s: its link has the first rate",
        "frames of 50 B are 60 B: no Ethernet frame is smaller",
        "the burst of f1 is a frame, 480 bit, in place of 80 bit",
    ] {
        assert!(told.contains(expected), "{expected}\n{told}");
    }
    let plan = planned(&imported, Analysis::default());
    assert!(plan.warnings.is_empty());
    let route = &plan.streams[0].promises[0].route;
    assert_eq!(
        *route,
        ["from-f0", "at-s0-o0", "at-s1-o0", "to-s1-o0"],
        "both ports behind s0-o0 are of one switch"
    );
}

/// A ring in which the flow f passes the switch of s0 and s3 twice: the port s2 leads to both, as g shows.
#[test]
fn a_ring_whose_flows_pass_a_switch_twice_is_planned() {
    let flow = |name: &str, path: &[&str]| {
        json!({ "name": name, "path": path, "max_packet_length": 1_000,
            "arrival_curve": { "bursts": [2_000], "rates": [1_000_000] } })
    };
    let server = |name: &&str| {
        json!({ "name": name, "capacity": 10_000_000,
            "service_curve": { "latencies": [0], "rates": [10_000_000] } })
    };
    let names = ["s0", "s1", "s2", "s3"];
    let servers: Vec<Value> = names.iter().map(server).collect();
    let document = json!({
        "network": { "name": "ring", "multiplexing": "FIFO", "time_unit": "us", "data_unit": "b", "rate_unit": "bps" },
        "flows": [flow("f", &["s0", "s1", "s2", "s3"]), flow("g", &["s1", "s2", "s0"]), flow("h", &["s0", "s1"])],
        "servers": servers,
    });
    let imported = saihu(&document.to_string()).unwrap();
    let plan = planned(&imported, Analysis::default());
    let promise = &plan.streams[0].promises[0];
    let passed = promise.route.iter().filter(|node| *node == "at-s0").count();
    assert_eq!(passed, 2, "{:?}", promise.route);
    // Each of four ports sends at least its own frame.
    assert!(promise.delay_ns.unwrap() > 4 * 100_000);
}

#[test]
fn faulty_documents_say_where_and_what_would_be_right() {
    let cases = [
        (
            "{".to_owned(),
            "no JSON: EOF while parsing an object at line 1 column 1",
        ),
        ("{}".to_owned(), "the document: there is no \"servers\""),
        (
            DEMO.replace("\"10B\"", "\"10 bytes\""),
            "flows[1].arrival_curve.bursts[0]: \"10 bytes\" is not an amount of data such as \"2kB\" or a number, from 0 on",
        ),
        (
            DEMO.replace("[\"s1-o0\"]", "[\"s9\"]"),
            "flows[2].path[0]: there is no server \"s9\"",
        ),
        (
            DEMO.replace("[\"s0-o0\", \"s1-o1\"]", "[\"s0-o0\", \"s0-o0\"]"),
            "flows[1].path[1]: \"s0-o0\" is on this path already",
        ),
        (
            DEMO.replace("\"rates\": [4, 50]", "\"rates\": [4]"),
            "servers[1].service_curve: 2 \"latencies\" and 1 \"rates\": there must be as many",
        ),
        (
            DEMO.replace("\"time_unit\": \"us\"", "\"time_unit\": \"weeks\""),
            "network.time_unit: \"weeks\" is not the unit of a time such as \"10us\"",
        ),
        (
            DEMO.replace(
                "\"max_packet_length\": \"50B\"",
                "\"max_packet_length\": \"9kB\"",
            ),
            "f2: a packet of 9000 B is no Ethernet frame, the largest is 1542 B on the wire",
        ),
        (
            DEMO.replace(
                "[\"s0-o0\", \"s1-o1\"]",
                "[\"s0-o0\", \"s1-o1\", \"s1-o0\"]",
            ),
            "s1-o1 leads to a port of its own switch: no network of switches and links has these paths",
        ),
    ];
    for (text, expected) in cases {
        let found = saihu(&text).map(|imported| imported.notes).unwrap_err();
        assert_eq!(found.to_string(), expected);
    }
}

proptest! {
    /// Tests that a change of some bytes leads to a readable description or one message.
    #[test]
    fn no_bytes_make_an_import_panic(
        at in proptest::collection::vec((0_usize..2000, any::<u8>()), 0..12),
        cut in 0_usize..2000,
    ) {
        let changed = |text: &str| {
            let mut bytes = text.as_bytes().to_vec();
            for (at, byte) in &at {
                let length = bytes.len();
                bytes[at % length] = *byte;
            }
            if cut < bytes.len() && cut % 3 == 0 {
                bytes.truncate(cut);
            }
            String::from_utf8_lossy(&bytes).into_owned()
        };
        for result in [saihu(&changed(DEMO)), tsnkit(&changed(STREAMS), TOPOLOGY), tsnkit(STREAMS, &changed(TOPOLOGY))] {
            match result {
                Ok(imported) => prop_assert!(read(&imported.description, "imported.toml", &[]).is_ok()),
                Err(fault) => prop_assert!(!fault.to_string().is_empty()),
            }
        }
    }
}
