//! The examples of the project: read, planned.

use rtwire_plan::{Options, plan, read};

#[test]
fn five_nodes_fit_at_all_three_shaping_intervals() {
    let text = include_str!("../../../examples/five-nodes.toml");
    for interval in ["10 ms", "1 ms", "100 us"] {
        let network = read(text, "five-nodes.toml", &[("shaping-interval".into(), interval.into())]).unwrap();
        let plan = plan(&network, &Options::default()).unwrap_or_else(|refusal| panic!("{refusal}"));
        for stream in &plan.streams {
            println!("{interval} {} {:?}", stream.name, stream.promises[0]);
        }
        for port in plan.ports.iter().filter(|port| port.utilization_permille > 0) {
            println!("{interval} {:?}", port);
        }
    }
}
