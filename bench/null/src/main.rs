//! The bare responder and the bare client as a program, for measuring load generators.
//!
//! `petasos-null [BYTES [DELAY_US [DELAY_US]]]` answers every request with 200 and BYTES of content
//! (default 12), after DELAY_US microseconds (default none). With two delays, every other response
//! takes the second one. It prints its address first.
//!
//! `petasos-null ask ADDRESS PATH CONNECTIONS SECONDS keep|close` sends requests and prints the
//! number of responses.

#![allow(clippy::print_stdout, reason = "a command whose output is its result")]

use petasos_null::{Responder, RunParameters};
use std::io;
use std::time::Duration;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((first, rest)) if first == "ask" => ask(rest),
        _ => serve(&arguments),
    }
}

fn serve(arguments: &[String]) -> io::Result<()> {
    let numbers: Vec<u64> = arguments.iter().map_while(|text| text.parse().ok()).collect();
    let bytes = numbers.first().copied().unwrap_or(12) as usize;
    let delays =
        numbers.get(1..).unwrap_or_default().iter().map(|&delay| Duration::from_micros(delay)).collect();
    let responder = Responder::bind("", &vec![b'x'; bytes], delays)?;
    println!("{}", responder.address());
    responder.serve()
}

fn ask(arguments: &[String]) -> io::Result<()> {
    let wrong =
        || io::Error::new(io::ErrorKind::InvalidInput, "ask ADDRESS PATH CONNECTIONS SECONDS keep|close");
    let [address, path, connections, seconds, connection] = arguments else { return Err(wrong()) };
    let asking = RunParameters {
        address: address.parse().map_err(|_| wrong())?,
        path: path.clone(),
        connections: connections.parse().map_err(|_| wrong())?,
        keep_alive: connection == "keep",
    };
    let seconds = seconds.parse().map_err(|_| wrong())?;
    let asked = asking.ask(Duration::from_secs(seconds))?;
    println!("{} answers, {} octets", asked.answers, asked.octets);
    Ok(())
}
