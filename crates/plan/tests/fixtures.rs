//! Server graphs with bounds that other programs computed, and worst cases that a packet-level search found.

use crate::vectors;

use rtwire_plan::Ratio;
use rtwire_plan::bound::graph::{Flow, Graph, Hop, Method, PortBound};
use rtwire_plan::bound::loeser_haertig::{Input, closed_form};
use rtwire_plan::bound::tfa::analyse;
use vectors::{best, fixtures, graph, least_of_others, ratio, seconds, server};

const TFA: Method = Method {
    line_shaping: false,
    aggregates: false,
    staircase: false,
    least_delay: false,
    last_on_link: false,
};
const TFA_PLUS: Method = Method {
    line_shaping: true,
    ..TFA
};
const STAIRCASE: Method = Method {
    staircase: true,
    least_delay: true,
    ..TFA_PLUS
};

/// Returns the sum of the delays along the first flow.
fn end_to_end(graph: &Graph, bounds: &[PortBound]) -> Option<Ratio> {
    graph.flows[0]
        .hops
        .iter()
        .try_fold(Ratio::ZERO, |total, hop| {
            Some(
                total
                    .plus(bounds[hop.server].classes[usize::from(hop.class)].delay?)
                    .unwrap(),
            )
        })
}

fn first_flow(graph: &Graph, method: Method) -> Option<f64> {
    end_to_end(graph, &analyse(graph, method).unwrap()).map(seconds)
}

const ONE_NS: f64 = 1e-9;

#[test]
fn ethernet_tandems_match_the_other_programs_and_no_witness_is_later() {
    let mut compared = 0;
    for network in fixtures()["networks"].as_array().unwrap() {
        let id = network["id"].as_str().unwrap();
        if network.get("store_and_forward").is_none() {
            continue;
        }
        let graph = graph(network);
        for (key, method) in [("tfa", TFA), ("tfapp", TFA_PLUS), ("stair", STAIRCASE)] {
            let expected = &network["store_and_forward"][key]["foi0_s"];
            let Some(text) = expected.as_str() else {
                continue;
            };
            // Some fractions exceed 128 bits: compare as numbers.
            let (num, den) = text.split_once('/').unwrap_or((text, "1"));
            let expected = num.parse::<f64>().unwrap() / den.parse::<f64>().unwrap();
            let ours = first_flow(&graph, method).unwrap();
            println!(
                "{id} {key}: ours {:.6} us, theirs {:.6} us",
                ours * 1e6,
                expected * 1e6
            );
            assert!(
                (ours - expected).abs() < ONE_NS,
                "{id} {key}: {ours} {expected}"
            );
            compared += 1;
        }
        let full = best(&graph).min(first_flow(&graph, Method::FULL).unwrap());
        let least = least_of_others(&network["tools_T_plus_L_over_C_except_last_s"]);
        println!(
            "{id}: ours {:.3} us, the least of the others {:.3} us",
            full * 1e6,
            least * 1e6
        );
        assert!(full <= least + ONE_NS, "{id}: {full} {least}");
        if let Some(witness) = network["packet_level_witness_us"].as_f64() {
            assert!(
                full >= witness * 1e-6 - 1e-12,
                "{id}: a schedule reaches {witness} us, the bound is {full} s"
            );
        }
        assert!(
            full <= first_flow(&graph, TFA_PLUS).unwrap() + ONE_NS,
            "{id}: more knowledge made it worse"
        );
    }
    assert!(compared >= 27, "{compared}");
}

#[test]
fn fluid_networks_match() {
    let mut compared = 0;
    for network in fixtures()["networks"].as_array().unwrap() {
        let id = network["id"].as_str().unwrap();
        let Some(own) = network.get("own_s") else {
            continue;
        };
        let graph = graph(network);
        println!(
            "{id}: ours {:.9} s, port by port {:?} s, the others {}",
            best(&graph),
            first_flow(&graph, Method::FULL),
            network["tools_s"]["0"]
        );
        for (key, method) in [("ownTFA", TFA), ("ownTFA++", TFA_PLUS)] {
            let ours = first_flow(&graph, method);
            println!("{id} {key}: ours {ours:?}, theirs {}", own[key]);
            match own[key].as_f64() {
                Some(expected) => {
                    let ours = ours.unwrap();
                    assert!(
                        (ours / expected - 1.0).abs() < 1e-6,
                        "{id} {key}: {ours} {expected}"
                    );
                }
                None => assert_eq!(ours, None, "{id} {key}"),
            }
            compared += 1;
        }
    }
    assert!(compared >= 10, "{compared}");
}

/// Tests that passes over a ring do not stop early, which would return a finite, wrong number.
#[test]
fn a_ring_that_does_not_settle_has_no_bound() {
    for network in fixtures()["networks"].as_array().unwrap() {
        if network["id"] == "panco_ring5_u0.5" {
            assert_eq!(first_flow(&graph(network), TFA), None);
            assert!(first_flow(&graph(network), TFA_PLUS).is_some());
            return;
        }
    }
    panic!("the fixture is missing");
}

/// Tests that no link limits sources that enter at the port: three bursts of three frames all count.
#[test]
fn local_sources_are_not_capped_by_one_frame() {
    let found =
        &fixtures()["tool_unsoundness_found"]["saihu_xtfa_packetizer_true_source_without_capacity"];
    let frame = Ratio::whole(12336);
    let flow = Flow {
        burst: Ratio::whole(3 * 12336),
        rate: Ratio::whole(20_000_000),
        frame_max: frame,
        frame_min: frame,
        period: None,
        jitter: Ratio::ZERO,
        meter: None,
        hops: vec![Hop {
            server: 0,
            class: 0,
            before: None,
        }],
    };
    let servers = vec![server(Ratio::whole(100_000_000), Ratio::from_ns(5_000))];
    let graph = Graph {
        servers,
        flows: vec![flow; 3],
    };
    let bound = first_flow(&graph, Method::FULL).unwrap() * 1e6;
    let truth = found["true_worst_case_us"].as_f64().unwrap();
    assert!((bound - truth).abs() < 1e-6, "{bound} {truth}");
    assert!(bound > found["tool_bound_us"].as_f64().unwrap());
}

/// Tests that whole frames cost their own time at every hop.
#[test]
fn store_and_forward_counts_at_every_hop() {
    let all = fixtures();
    let found = &all["tool_unsoundness_found"]["panco_fluid_T5us_vs_store_and_forward"];
    let network = all["networks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|network| network["id"] == found["net"])
        .unwrap();
    let bound = first_flow(&graph(network), Method::FULL).unwrap() * 1e6;
    assert!(bound >= found["packet_level_witness_us"].as_f64().unwrap() - 1e-6);
    assert!(bound > found["tool_PLP_us"].as_f64().unwrap());
}

#[test]
fn strict_priority_at_one_port_matches() {
    for case in fixtures()["strict_priority_single_port"]
        .as_array()
        .unwrap()
    {
        let classes = case["classes_high_to_low_r_b_Lmax"].as_array().unwrap();
        let count = u8::try_from(classes.len()).unwrap();
        let mut flows = Vec::new();
        for (index, class) in classes.iter().enumerate() {
            for fields in class.as_array().unwrap() {
                flows.push(Flow {
                    rate: ratio(&fields[0]),
                    burst: ratio(&fields[1]),
                    frame_max: ratio(&fields[2]),
                    frame_min: ratio(&fields[2]),
                    period: None,
                    jitter: Ratio::ZERO,
                    meter: None,
                    hops: vec![Hop {
                        server: 0,
                        class: count - 1 - u8::try_from(index).unwrap(),
                        before: None,
                    }],
                });
            }
        }
        let rate = Ratio::whole(case["C_bps"].as_i64().unwrap().into());
        // Theirs adds the latency to the delay; ours lets the urgent classes overtake during it, which a
        // latency that may differ from frame to frame allows. Without it both are the same.
        let latency = ratio(&case["T_s"]);
        let mut server = server(rate, Ratio::ZERO);
        server.classes = count;
        server.foreign_frame = Ratio::whole(case["Lmax_best_effort_bits"].as_i64().unwrap().into());
        let bounds = analyse(
            &Graph {
                servers: vec![server],
                flows,
            },
            Method::FULL,
        )
        .unwrap();
        for (index, expected) in case["delay_s"].as_array().unwrap().iter().enumerate() {
            let ours = bounds[0].classes[classes.len() - 1 - index].delay;
            match expected.as_str() {
                Some(_) => {
                    let ours = ours.unwrap().plus(latency).unwrap();
                    let (ours, expected) = (seconds(ours), seconds(ratio(expected)));
                    assert!(
                        ours >= expected - 1e-15 && ours - expected < ONE_NS,
                        "{}: {ours} {expected}",
                        case["id"]
                    );
                }
                None => assert_eq!(ours, None, "{}", case["id"]),
            }
        }
    }
}

#[test]
fn strict_priority_tandems_match_and_no_witness_is_later() {
    let all = fixtures();
    for case in all["strict_priority_tandem"].as_array().unwrap() {
        let name = case["net"].as_str().unwrap().split(',').next().unwrap();
        let network = all["networks"]
            .as_array()
            .unwrap()
            .iter()
            .find(|network| network["id"] == name)
            .unwrap();
        let mut graph = graph(network);
        for server in &mut graph.servers {
            server.foreign_frame = Ratio::whole(12336);
        }
        for (key, method) in [("tfapp_us", TFA_PLUS), ("stair_us", STAIRCASE)] {
            let (ours, expected) = (
                first_flow(&graph, method).unwrap() * 1e6,
                case[key].as_f64().unwrap(),
            );
            assert!(
                (ours - expected).abs() < 0.006,
                "{name} {key}: {ours} {expected}"
            );
        }
        // The stream's own frames have no more jitter than it sent them with: so it is exact, where the staircase alone is not.
        let full = best(&graph) * 1e6;
        let witness = case["packet_level_witness_us"].as_f64().unwrap();
        assert!(
            (full - witness).abs() < 6e-3,
            "{name}: a schedule reaches {witness} us, the bound is {full} us"
        );
    }
}

/// Returns the bound of one flow over two servers that may each be late by 50 us, without help from links.
fn two_hops(method: Method) -> f64 {
    let mut late = server(Ratio::whole(100_000_000), Ratio::from_ns(50_000));
    late.latency_min = Ratio::ZERO;
    let frame = Ratio::whole(10_000);
    let flow = Flow {
        burst: Ratio::whole(20_000),
        rate: Ratio::whole(50_000_000),
        frame_max: frame,
        frame_min: frame,
        period: None,
        jitter: Ratio::ZERO,
        meter: None,
        hops: vec![
            Hop {
                server: 0,
                class: 0,
                before: None,
            },
            Hop {
                server: 1,
                class: 0,
                before: Some(0),
            },
        ],
    };
    let graph = Graph {
        servers: vec![late.clone(), late],
        flows: vec![flow],
    };
    let bounds = analyse(&graph, method).unwrap();
    seconds(bounds[1].classes[0].delay.unwrap()) * 1e6
}

/// Tests that the least delay contains no latency, since latency need not happen.
///
/// In the queue the burst is larger by 50 us, 2500 bit. So the delay is 225 us for the burst and 50 us of latency. Less
/// 100 us for the frame, the flow gains 175 us of jitter, which are 8750 bit. The second queue adds 2500 bit again.
#[test]
fn the_least_delay_contains_no_latency() {
    let delay = two_hops(Method {
        least_delay: true,
        ..TFA
    });
    assert!(
        (delay - (200.0 + 87.5 + 25.0 + 50.0)).abs() < 1e-6,
        "{delay}"
    );
}

/// Tests that all flows together leave a late port with a burst that is larger by its latency: 2500 bit. In the next
/// queue it is larger by as much again.
#[test]
fn an_aggregate_grows_by_the_latency() {
    let delay = two_hops(Method {
        aggregates: true,
        ..TFA
    });
    assert!(
        (delay - (200.0 + 25.0 + 25.0 + 50.0)).abs() < 1e-6,
        "{delay}"
    );
}

/// Tests the closed form by itself. Its use through files and the command is tested in `tests/plan_command.rs`.
#[test]
fn the_closed_form_is_exact() {
    let all = fixtures();
    let vectors = all["loeser_haertig"]["vectors"].as_array().unwrap();
    for vector in vectors {
        let whole = |key: &str| Ratio::whole(vector[key].as_i64().unwrap().into());
        let inputs: Vec<Input> = vector["ports_r_bps_b_bits"]
            .as_array()
            .unwrap()
            .iter()
            .map(|input| Input {
                rate: ratio(&input[0]),
                burst: ratio(&input[1]),
            })
            .collect();
        let latency = ratio(&vector["t_mux_s"]);
        let limit = vector["buffer_limit_bytes"].as_u64();
        let form = closed_form(whole("C_bps"), whole("M_bits"), latency, &inputs, limit).unwrap();
        let form = serde_json::to_value(form).unwrap();
        for (ours, theirs) in [
            ("status", "status"),
            ("why", "why"),
            ("g_max_s", "g_max_s"),
            ("delay_s", "delay_s"),
            ("delay_ns", "delay_ns_ceil"),
            ("buffer_bits_paper", "buffer_bits_paper"),
            ("buffer_bits_exact", "buffer_bits_exact"),
            ("buffer_bytes", "buffer_bytes_ceil"),
            ("buffer_frames", "frames1514_ceil"),
        ] {
            assert_eq!(
                form.get(ours),
                vector["expect"].get(theirs),
                "{}: {ours}",
                vector["id"]
            );
        }
    }
    // A burst below one frame is no contract.
    let input = Input {
        rate: Ratio::ONE,
        burst: Ratio::whole(12_111),
    };
    let form = closed_form(
        Ratio::whole(100_000_000),
        Ratio::whole(12_112),
        Ratio::ZERO,
        &[input],
        None,
    )
    .unwrap();
    assert_eq!(serde_json::to_value(form).unwrap()["status"], "invalid");
}
