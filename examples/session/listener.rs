//! Receives the counter that `session_talker` sends: `session_listener plan.json HOST INTERFACE STREAM [VALUES]`.

use rtwire::prelude::*;
use std::time::Duration;

fn main() -> Result<(), rtwire::Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, host, interface, stream, rest @ ..] = arguments.as_slice() else {
        eprintln!("usage: session_listener plan.json HOST INTERFACE STREAM [VALUES]");
        std::process::exit(2);
    };
    let values: u64 = rest
        .first()
        .map_or(1000, |text| text.parse().unwrap_or(1000));
    let plan = rtwire::read_plan(file)?;
    let session = Session::open(&plan, host, interface)?;
    let mut listener = session.listener(stream)?;
    session.become_real_time()?;
    println!("listening");
    let (mut received, mut newest, mut slowest_ns) = (0_u64, None, 0);
    while newest.is_none_or(|newest| newest + 1 < values) {
        // Three seconds without a value: the talker has ended or never began.
        let Some(value) = listener.recv(Some(Duration::from_secs(3)))? else {
            break;
        };
        newest = value
            .data
            .first_chunk()
            .map(|bytes| u64::from_be_bytes(*bytes));
        let sent_ns = value.sender_time_ns.unwrap_or(value.arrival_ns);
        slowest_ns = slowest_ns.max(value.arrival_ns.saturating_sub(sent_ns));
        received += 1;
    }
    let seen = listener.statistics()?;
    let (lost, foreign) = (seen.channel.lost, seen.foreign);
    println!("received {received}, newest {newest:?}, lost {lost}, foreign {foreign}");
    println!("slowest {slowest_ns} ns");
    Ok(())
}
