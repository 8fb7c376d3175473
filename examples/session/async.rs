//! Receives two streams in one thread of an async program: `session_async plan.json HOST INTERFACE STREAM STREAM`.

use rtwire::prelude::*;
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), rtwire::Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, host, interface, first, second] = arguments.as_slice() else {
        eprintln!("usage: session_async plan.json HOST INTERFACE STREAM STREAM");
        std::process::exit(2);
    };
    let plan = rtwire::read_plan(file)?;
    let session = Session::open(&plan, host, interface)?;
    let mut first = AsyncListener::new(session.listener(first)?)?;
    let mut second = AsyncListener::new(session.listener(second)?)?;
    println!("listening");
    let mut received = [0_u64; 2];
    loop {
        tokio::select! {
            ready = first.ready() => ready?,
            ready = second.ready() => ready?,
            // Two seconds without a value: the talkers have ended or never began.
            () = tokio::time::sleep(Duration::from_secs(2)) => break,
        }
        for (listener, count) in [&mut first, &mut second].into_iter().zip(&mut received) {
            while listener.try_recv()?.is_some() {
                *count += 1;
            }
        }
    }
    println!("received {} and {}", received[0], received[1]);
    Ok(())
}
