//! The usage text of `petasos ab`.
//!
//! Invariant: it lists every option letter that the parser accepts. A test compares the two.

/// The text of `-h`.
pub(crate) const USAGE: &str = "\
Usage: petasos ab [--yes] [--plain] [options] [http[s]://]hostname[:port]/path
Before the options:
  --yes             Load a target that is not on this machine without asking
  --plain           Print what ab prints, with ab's counts of failures, and nothing else
Options are:
    -n requests     Number of requests to perform (1)
    -c concurrency  Number of requests in flight at a time (1)
    -t seconds      Time to measure at most; sets -n to 50000 unless -n follows
    -s seconds      Time limit of each request (30)
    -b bytes        Size of the socket buffers
    -B address      Local address of connections, or a range such as 127.0.0.0/8
    -k              Keep connections open
    -p file         POST this file; set -T too
    -u file         PUT this file; set -T too
    -T type         Media type of the file (text/plain)
    -i              HEAD instead of GET
    -m method       Any other method
    -C name=value   Add a cookie; repeatable
    -H line         Add a header field, such as 'Accept-Encoding: gzip'; repeatable
    -A user:pass    Credentials for basic authentication
    -P user:pass    The same for a proxy
    -X host:port    Send requests to this proxy
    -l              Accept answers of different lengths
    -r              Go on after connections that break
    -v level        2 prints the request and the head of the first answer, 3 its status
    -w              Print the report as an HTML table
    -x attributes   Attributes of the table
    -y attributes   Attributes of its rows
    -z attributes   Attributes of its cells (bgcolor=white)
    -q              No progress
    -d              No table of percentiles
    -S              No median and standard deviation
    -e file         Write the percentiles as CSV
    -g file         Write every answer as TSV for gnuplot
    -I              Do not name the host in the TLS handshake
    -Z suites       TLS cipher suites, as OpenSSL lists them
    -f protocol     TLS1.2, TLS1.3 or ALL
    -E file         Certificate of the client with its private key, as PEM
    -V              Print the version
    -h              Print this text
Exit codes: 0 all answers as expected, 1 failures or interrupted, 2 could not run.
";

/// An option of `ab`'s development branch that `ab` 2.4 does not have. Returns its meaning and the
/// alternative to use.
pub(super) fn later_option(letter: char) -> Option<(&'static str, &'static str)> {
    Some(match letter {
        'W' => ("worker threads", "there is one for each core, and petasos bench --threads chooses"),
        'R' => ("ramp delay", "petasos bench --ramp-up lets a load grow"),
        'Q' => ("no banner", "petasos bench prints none"),
        'D' => ("debug counters", "petasos bench shows on the terminal what it is doing"),
        'o' => ("local address", "use -B"),
        _ => return None,
    })
}
