//! Sends a counter on the cyclic stream of a plan: `session_talker plan.json HOST INTERFACE STREAM [VALUES]`.

use rtwire::prelude::*;

fn main() -> Result<(), rtwire::Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, host, interface, stream, rest @ ..] = arguments.as_slice() else {
        eprintln!("usage: session_talker plan.json HOST INTERFACE STREAM [VALUES]");
        std::process::exit(2);
    };
    let values: u64 = rest
        .first()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1000);
    let plan = rtwire::read_plan(file)?;
    let session = Session::open(&plan, host, interface)?;
    let mut talker = session.talker(stream)?.cyclic()?;
    session.become_real_time()?;
    let mut latest_ns = 0;
    for value in 0..values {
        let cycle = talker.wait()?;
        talker.send(&value.to_be_bytes())?;
        latest_ns = latest_ns.max(cycle.late_ns);
    }
    let (sent, skipped) = (talker.statistics().sent, talker.skipped());
    println!(
        "sent {sent}, cycles skipped {skipped}, latest by {} us",
        latest_ns / 1000
    );
    Ok(())
}
