//! The bare responder as a program, to measure load generators against by hand.
//!
//! Usage: `petasos-null [BYTES [DELAY_US [DELAY_US]]]`. Answers every request with 200 and BYTES of content (12
//! by default) after DELAY_US microseconds (none by default); with two delays every other answer takes the
//! second one. Prints the address it listens on.

use petasos_null::Responder;
use std::time::Duration;

fn main() -> std::io::Result<()> {
    let numbers: Vec<u64> = std::env::args().skip(1).map_while(|text| text.parse().ok()).collect();
    let bytes = numbers.first().copied().unwrap_or(12) as usize;
    let delays =
        numbers.get(1..).unwrap_or_default().iter().map(|&delay| Duration::from_micros(delay)).collect();
    let responder = Responder::bind("", &vec![b'x'; bytes], delays)?;
    println!("{}", responder.address());
    responder.serve()
}
