//! A PubSub peer of another make: open62541 as publisher or subscriber, for tests over network namespaces.
//!
//! `rtwire-open62541 publish|subscribe URL INTERFACE fixed|dynamic|fixed-long|dynamic-long none|sign|sign-and-encrypt`. The library's calls of its
//! state callback are printed as `state NUMBER`, its writes of values as `FIELD VALUE`, and `running` once it runs. It runs
//! until it is ended. For the benchmark: `pace … INTERVAL_NS` publishes by a clock of its own, and `watch … SAMPLES` prints the age
//! of samples and ends. `ping … SAMPLES FROM` sends messages and measures their round trips (`ping-awake`: without sleeping between them), and
//! `pong … 0 FROM` answers those from the URL `FROM`. `file IN AGAIN CHANGED` reads a binary configuration file, says what is in it, and writes it again twice: as it
//! is, and with doubled times and other numbers. `keys …` is a security key service. `codec NAME OCTETS ROUNDS` prints what its codec
//! takes for one message, in ns.

mod codec;
mod file;
mod keys;
mod peer;

use peer::Setup;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["file", input, again, changed] = arguments[..] {
        return file::check(input, again, changed);
    }
    if let ["keys", port, lifetime, certificate, key, trusted] = arguments[..] {
        return keys::serve(port, lifetime, [certificate, key, trusted]);
    }
    if let ["codec", name, octets, rounds] = arguments[..] {
        return codec::measure(name, octets, rounds.parse().unwrap_or(1));
    }
    let [role, url, interface, layout, security, ref more @ ..] = arguments[..] else {
        eprintln!(
            "usage: rtwire-open62541 publish|subscribe|pace|watch|ping|ping-awake|pong URL INTERFACE fixed|dynamic none|sign|sign-and-encrypt [NUMBER [FROM]]"
        );
        std::process::exit(2);
    };
    let setup = Setup {
        url: url.to_owned(),
        interface: interface.to_owned(),
        fixed: layout.starts_with("fixed"),
        long: layout.ends_with("-long"),
        security: match security {
            "sign" => 1,
            "sign-and-encrypt" => 2,
            _ => 0,
        },
        key: (
            (0..32).collect(),
            (0x40..0x50).collect(),
            (0xa0..0xa4).collect(),
        ),
    };
    let number = more.first().and_then(|text| text.parse::<u64>().ok());
    match role {
        "publish" => peer::publish(&setup),
        "pace" => peer::publish_paced(&setup, number.unwrap_or(1_000_000)),
        "ping" | "ping-awake" => peer::ping(
            &setup,
            more.get(1).unwrap_or(&""),
            number.unwrap_or(1_000) as usize,
            role == "ping-awake",
        ),
        "pong" => peer::pong(&setup, more.get(1).unwrap_or(&"")),
        "watch" => peer::subscribe_timed(&setup, number.unwrap_or(1_000) as usize),
        _ => peer::subscribe(&setup),
    }
}
