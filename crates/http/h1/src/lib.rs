//! HTTP/1.x messages on the wire (RFC 9112): heads, framing, the chunked coding, and a writer. Both
//! sides of the reverse proxy, the load tester and the demo site use it.
//!
//! The crate does no I/O: bytes go in, values or typed errors come out. It opens no connection,
//! reads no clock, decides nothing about caching, and does not interpret content.
//!
//! ```text
//!   bytes --- parse_request, parse_response -> head, BodyFraming -> BodyDecoder -> content,
//! trailer
//!          `- skim_response -----------------> ResponseSkim ------> BodyDecoder::skim -> counts
//!   head, content -- write_* -> bytes
//! ```
//!
//! [`client::Exchange`] combines these parts: it reads a whole exchange as a client.
//!
//! The result depends only on the bytes of a message, never on how they were split into reads. Any
//! number of reads gives the same messages and the same errors as one read.
//!
//! # Example
//!
//! ```
//! use bytes::BytesMut;
//! use petasos_h1::{BodyDecoder, Decoded, Limits, Strictness, parse_request};
//!
//! let mut buf = BytesMut::from(
//!     "POST /cart HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 4\r\n\r\nid=1GET",
//! );
//! let request = parse_request(&mut buf, &Limits::DEFAULT, Strictness::Strict)?.unwrap();
//! assert_eq!(request.head.target, "/cart");
//! let mut body = BodyDecoder::new(request.framing);
//! assert_eq!(body.decode(&mut buf), Ok(Decoded::Data("id=1".into())));
//! assert_eq!(body.decode(&mut buf), Ok(Decoded::End(None)));
//! assert_eq!(buf, "GET");
//! # Ok::<(), petasos_h1::RequestError>(())
//! ```
//!
//! # Strictness
//!
//! Input outside this table is treated alike in both modes. *Refused* means a typed error, after
//! which the connection is of no use. *Closes* means that the message is read but `persistent` is
//! false.
//!
//! | The peer sends | RFC 9112 | Strict | Tolerant |
//! |---|---|---|---|
//! | Lines of a head that end in LF alone | 2.2 | refused | read |
//! | Empty lines before a request line | 2.2 | CR LF: skipped; LF: refused | skipped |
//! | Empty lines before a status line | 2.2 | refused | skipped |
//! | White space before the colon, in a response | 5.1 | refused | dropped |
//! | White space before the colon, in a request | 5.1 | refused | refused |
//! | A folded line, in a response | 5.2 | refused | joined by spaces |
//! | A folded line, in a request | 5.2 | refused | refused |
//! | A target with bytes that do not belong there, or of no form | 3.2 | refused | passed on |
//! | HTTP/1.1 without Host, or with an invalid one | 3.2 | refused | passed on |
//! | Transfer-Encoding in HTTP/1.0 | 6.1 | refused | wins, closes |
//! | Transfer-Encoding and Content-Length | 6.3 | refused | Transfer-Encoding wins, closes |
//! | Transfer-Encoding on two lines | 6.1 | refused | read as one list |
//! | A coding besides `chunked`, last coding `chunked`: request | 6.1 | refused | refused |
//! | A coding besides `chunked`, last coding `chunked`: response | 6.1 | refused | chunked, content still coded |
//! | A last coding that is not `chunked`: request | 6.3 | refused | refused |
//! | A last coding that is not `chunked`: response | 6.3 | refused | until close, content still coded |
//! | One Content-Length twice, on two lines or as a list | 6.3 | refused | read once |
//! | White space after a chunk size without extension | 7.1.1 | refused | read |
//! | Lines of the chunked coding or a trailer that end in LF alone | 7.1 | refused | read |
//!
//! Refused in both modes:
//!
//! - control bytes in values, reasons and extensions
//! - names that are not tokens
//! - contradicting, signed or overlarge Content-Lengths
//! - a Transfer-Encoding with `chunked` twice, with an empty member or a member that is no coding
//! - a repeated Host
//! - versions other than 1.0 and 1.1
//! - chunk sizes that are not hexadecimal or have more than 16 digits
//!
//! Accepted in both modes: a status line that ends after the code, since every reader reads it
//! alike.
//!
//! RFC 9112 section 6.3 leaves it to the recipient whether to refuse a repeated Content-Length with
//! the same number. Strict mode does: the next reader may join, pick or reject the lines, and no
//! correct client or server sends them.

mod chunk_extension;
pub mod client;
mod decoder;
mod error;
mod framing;
mod head;
mod hop;
mod limits;
mod octets;
mod request;
mod response;
mod target;
mod writer;

pub use decoder::{BodyDecoder, BodySkim, Decoded};
pub use error::{
    BodyError, ExchangeError, FramingError, HeadError, RequestError, ResponseError, TargetError, WriteError,
};
pub use framing::BodyFraming;
pub use hop::{PROTECTED, strip_hop_by_hop};
pub use limits::{Limits, Strictness};
pub use request::{Request, parse_request};
pub use response::{Response, ResponseSkim, parse_response, skim_response};
pub use target::{EffectiveAuthority, Target, TargetForm, split_port};
pub use writer::{
    CHUNK_END, write_chunk, write_chunk_size, write_decimal_field, write_field, write_fields, write_head_end,
    write_last_chunk, write_request_head, write_request_line, write_response_head, write_status_line,
};
