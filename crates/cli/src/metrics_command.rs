//! `rtwire metrics`: figures of managers and agents for Prometheus, by a process that has no part in their work.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rtwire_sys::signal;

use crate::{metrics_text, watched};

/// The time that one reader may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// The largest request, bytes.
const LARGEST_REQUEST: usize = 8 * 1024;
/// The pause between two looks for a reader.
const LOOK: Duration = Duration::from_millis(20);

/// Arguments of `rtwire metrics`.
#[derive(Args)]
pub(crate) struct MetricsArguments {
    /// The status files of managers and agents (`--status` of `rtwire manager` and `rtwire agent`)
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The address and TCP port to answer at
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9464")]
    listen: SocketAddr,
}

/// Serves `GET /metrics` until it is stopped.
pub(crate) fn run(arguments: &MetricsArguments) -> ExitCode {
    match served(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("rtwire metrics: {message}");
            ExitCode::from(3)
        }
    }
}

fn served(arguments: &MetricsArguments) -> Result<(), String> {
    let stop = signal::install_stop_flag().map_err(|error| error.to_string())?;
    let listen = arguments.listen;
    let failed = |error: io::Error| format!("cannot listen at {listen}: {error}");
    let listener = TcpListener::bind(listen).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    for path in &arguments.files {
        if let Err(message) = watched::read(path) {
            eprintln!("rtwire metrics: note: {message}");
        }
    }
    eprintln!("rtwire metrics: ready at http://{address}/metrics");
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            // A reader that went away or is too slow costs nobody else more than a second.
            Ok((stream, _)) => drop(answer(stream, &arguments.files, stop)),
            Err(_) => thread::sleep(LOOK),
        }
    }
    Ok(())
}

fn answer(mut stream: TcpStream, files: &[PathBuf], stop: &AtomicBool) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let begun = Instant::now();
    let mut request = Vec::new();
    let mut part = [0; 1_024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let late = begun.elapsed() > PATIENCE || stop.load(Ordering::Relaxed);
        let count = stream.read(&mut part)?;
        if count == 0 || late || request.len() + count > LARGEST_REQUEST {
            return Ok(());
        }
        request.extend(&part[..count]);
    }
    let first = request
        .split(|byte| *byte == b'\r')
        .next()
        .unwrap_or_default();
    let (status, body) = match first {
        b"GET /metrics HTTP/1.1" | b"GET /metrics HTTP/1.0" => {
            let read = files.iter().map(|path| (path.clone(), watched::read(path)));
            ("200 OK", metrics_text::text(&read.collect::<Vec<_>>()))
        }
        line if line.starts_with(b"GET ") => {
            ("404 Not Found", "there is /metrics only\n".to_owned())
        }
        _ => ("405 Method Not Allowed", "GET /metrics only\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}
