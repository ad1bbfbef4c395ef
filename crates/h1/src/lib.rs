//! HTTP/1.x on the wire (RFC 9112): heads, framing, the chunked coding, and a writer. Used on both sides of
//! the accelerator, by the load tester and by the demo site.
//!
//! Pure: octets in, values or typed errors out. This crate opens no connection, keeps no time, decides
//! nothing about caching, and does not interpret content.
//!
//! ```text
//!   octets ── parse_request / parse_response ──> head + BodyFraming ──> BodyDecoder ──> content, trailers
//!          └─ skim_response ──> ResponseSkim ──> BodyDecoder::skim ──> counts, no copy
//!   head, chunks ── write_* ──> octets
//! ```

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

pub use decoder::{BodyDecoder, Decoded, Skimmed};
pub use error::{BodyError, FramingError, HeadError, RequestError, ResponseError, TargetError, WriteError};
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

#[cfg(test)]
mod tests {
    use crate::{BodyDecoder, BodyFraming, Decoded, Limits, Strictness};
    use bytes::BytesMut;
    use message::{Method, Status, Version};

    #[test]
    fn a_request_with_a_chunked_body_from_end_to_end() {
        let mut buf = BytesMut::from(
            "POST /cart?id=1 HTTP/1.1\r\nHost: shop.example\r\nTransfer-Encoding: chunked\r\n\r\n\
             4\r\nfour\r\n0\r\nX-Sum: 1\r\n\r\nGET",
        );
        let request = crate::parse_request(&mut buf, &Limits::DEFAULT, Strictness::Strict).unwrap().unwrap();
        assert_eq!(request.head.method, Method::Post);
        assert_eq!(request.head.target, "/cart?id=1");
        assert_eq!(request.head.fields.only("host").unwrap(), "shop.example");
        assert_eq!(request.framing, BodyFraming::Chunked);
        assert!(request.persistent);
        let mut body = BodyDecoder::new(request.framing);
        assert_eq!(body.decode(&mut buf), Ok(Decoded::Data("four".into())));
        let Ok(Decoded::End(Some(trailer))) = body.decode(&mut buf) else { panic!("no end") };
        assert_eq!(trailer.only("x-sum").unwrap(), "1");
        assert_eq!(buf, "GET");
    }

    #[test]
    fn a_response_parsed_and_skimmed() {
        let input = b"HTTP/1.1 404 Not here\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
        let mut buf = BytesMut::from(&input[..]);
        let response = crate::parse_response(&mut buf, &Method::Get, &Limits::DEFAULT, Strictness::Strict)
            .unwrap()
            .unwrap();
        assert_eq!(response.head.reason, "Not here");
        assert_eq!(response.framing, BodyFraming::Length(2));
        assert!(!response.persistent);
        let skim = crate::skim_response(input, false, &Limits::DEFAULT).unwrap().unwrap();
        assert_eq!((skim.status, skim.version), (Status::NOT_FOUND, Version::Http11));
        assert_eq!(skim.field(input, "content-length"), Some(&b"2"[..]));
        assert_eq!(&input[skim.head_bytes..], b"no");
    }
}
