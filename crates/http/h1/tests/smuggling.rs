//! Request smuggling and response splitting, as tables. Each row has bytes that some
//! implementations read as different messages, with the one result of the strict parser. A row that
//! is accepted states its content and the bytes that are left on the connection.

#![expect(clippy::panic, reason = "a test fails by panicking")]

use bytes::BytesMut;
use message::Method;
use petasos_h1::{
    BodyDecoder, BodyError, BodyFraming, Decoded, FramingError, HeadError, Limits, RequestError,
    ResponseError, Strictness, TargetError, parse_request, parse_response,
};

enum Verdict {
    /// The head is refused.
    Head(RequestError),
    /// The head is accepted and the body is refused.
    Body(BodyError),
    /// The message is accepted, with this content and these bytes after it.
    Reads(&'static str, &'static str),
    /// The message is incomplete and correct so far.
    NeedsMore,
}

use BodyError as B;
use FramingError as F;
use HeadError as H;
use RequestError as R;
use TargetError as T;
use Verdict::{Body, Head, NeedsMore, Reads};

const fn framing(fault: F) -> Verdict {
    Head(R::Framing(fault))
}

const fn head(fault: H) -> Verdict {
    Head(R::Head(fault))
}

/// Requests that start with `POST / HTTP/1.1\r\nHost: h\r\n`.
#[rustfmt::skip]
const BEHIND_THE_HOST: &[(&str, &str, Verdict)] = &[
    // Two lengths.
    ("CL.TE", "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG", framing(F::TransferEncodingWithContentLength)),
    ("TE.CL", "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n1\r\nG\r\n0\r\n\r\n", framing(F::TransferEncodingWithContentLength)),
    ("CL.TE with an empty Content-Length", "Content-Length:\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", framing(F::ContentLengthInvalid)),
    ("CL.CL", "Content-Length: 0\r\nContent-Length: 5\r\n\r\nGET /", framing(F::ContentLengthsDiffer)),
    ("CL.CL, the same", "Content-Length: 5\r\nContent-Length: 5\r\n\r\nGET /", framing(F::ContentLengthRepeated)),
    ("CL.CL, the same number spelled otherwise", "Content-Length: 5\r\nContent-Length: 05\r\n\r\nGET /", framing(F::ContentLengthRepeated)),
    ("CL list", "Content-Length: 0, 5\r\n\r\nGET /", framing(F::ContentLengthsDiffer)),
    ("CL list, the same", "Content-Length: 5, 5\r\n\r\nGET /", framing(F::ContentLengthRepeated)),
    ("CL list with an empty member", "Content-Length: 5,\r\n\r\nGET /", framing(F::ContentLengthInvalid)),
    ("0.CL", "Content-Length: 0\r\n\r\nGET / HTTP/1.1\r\n", Reads("", "GET / HTTP/1.1\r\n")),
    ("no length: what follows is the next request", "\r\nGET / HTTP/1.1\r\n", Reads("", "GET / HTTP/1.1\r\n")),
    ("CL signed plus", "Content-Length: +5\r\n\r\nGET /", framing(F::ContentLengthInvalid)),
    ("CL signed minus", "Content-Length: -5\r\n\r\nGET /", framing(F::ContentLengthInvalid)),
    ("CL hexadecimal", "Content-Length: 0x5\r\n\r\nGET /", framing(F::ContentLengthInvalid)),
    ("CL with a space inside", "Content-Length: 1 5\r\n\r\nGET /", framing(F::ContentLengthInvalid)),
    ("CL with an underscore", "Content-Length: 1_5\r\n\r\nGET /", framing(F::ContentLengthInvalid)),
    ("CL quoted", "Content-Length: \"5\"\r\n\r\nGET /", framing(F::ContentLengthInvalid)),
    ("CL with a fraction", "Content-Length: 5.0\r\n\r\nGET /", framing(F::ContentLengthInvalid)),
    ("CL of 2^64", "Content-Length: 18446744073709551616\r\n\r\n", framing(F::ContentLengthInvalid)),
    ("CL that wraps round to 5", "Content-Length: 18446744073709551621\r\n\r\nGET /", framing(F::ContentLengthInvalid)),
    ("CL in non-ASCII digits", "Content-Length: \u{0665}\r\n\r\nGET /", framing(F::ContentLengthInvalid)),
    // TE.TE: a Transfer-Encoding that one of two readers does not recognise.
    ("TE xchunked", "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", framing(F::ChunkedNotLast)),
    ("TE chunked quoted", "Transfer-Encoding: \"chunked\"\r\n\r\n", framing(F::ChunkedNotLast)),
    ("TE chunked with a parameter", "Transfer-Encoding: chunked;a=b\r\n\r\n", framing(F::ChunkedNotLast)),
    ("TE chunked and junk", "Transfer-Encoding: chunked junk\r\n\r\n", framing(F::ChunkedNotLast)),
    ("TE identity", "Transfer-Encoding: identity\r\n\r\n", framing(F::ChunkedNotLast)),
    ("TE identity, chunked", "Transfer-Encoding: identity, chunked\r\n\r\n", framing(F::TransferCodingUnsupported)),
    ("TE gzip, chunked", "Transfer-Encoding: gzip, chunked\r\n\r\n", framing(F::TransferCodingUnsupported)),
    ("TE chunked, gzip", "Transfer-Encoding: chunked, gzip\r\n\r\n", framing(F::ChunkedNotLast)),
    ("TE chunked twice", "Transfer-Encoding: chunked, chunked\r\n\r\n", framing(F::TransferEncodingRepeated)),
    ("TE on two lines", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", framing(F::TransferEncodingRepeated)),
    ("TE on two lines, the last one junk", "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n", framing(F::TransferEncodingRepeated)),
    ("TE on two lines, the first one junk", "Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n\r\n", framing(F::TransferEncodingRepeated)),
    ("TE with an empty list member", "Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n", framing(F::TransferCodingUnsupported)),
    ("TE empty", "Transfer-Encoding:\r\n\r\n", framing(F::ChunkedNotLast)),
    ("TE in another case", "tRANSFER-eNCODING: ChUnKeD\r\n\r\n0\r\n\r\nG", Reads("", "G")),
    ("TE with a tab before its value", "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\nG", Reads("", "G")),
    ("TE with a vertical tab", "Transfer-Encoding: \x0bchunked\r\n\r\n", head(H::FieldValue)),
    ("TE with a form feed at the end", "Transfer-Encoding: chunked\x0c\r\n\r\n", head(H::FieldValue)),
    ("TE with NUL", "Transfer-Encoding: chunked\0\r\n\r\n", head(H::FieldValue)),
    ("TE with DEL", "Transfer-Encoding: chunked\x7f\r\n\r\n", head(H::FieldValue)),
    ("TE after a bare CR", "X: y\rTransfer-Encoding: chunked\r\n\r\n", head(H::FieldValue)),
    ("TE with a bare CR at its end", "Transfer-Encoding: chunked\r\r\n\r\n", head(H::FieldValue)),
    ("TE after a bare LF", "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", head(H::BareLf)),
    ("TE that ends in a bare LF", "Transfer-Encoding: chunked\n\r\n0\r\n\r\n", head(H::BareLf)),
    ("TE with a space before the colon", "Transfer-Encoding : chunked\r\n\r\n", head(H::BlankBeforeColon)),
    ("TE with a tab before the colon", "Transfer-Encoding\t: chunked\r\n\r\n", head(H::BlankBeforeColon)),
    ("TE with NUL before the colon", "Transfer-Encoding\0: chunked\r\n\r\n", head(H::FieldName)),
    ("TE with a non-ASCII octet before the colon", "Transfer-Encoding\u{85}: chunked\r\n\r\n", head(H::FieldName)),
    ("TE folded", "Transfer-Encoding:\r\n chunked\r\n\r\n", head(H::Folded)),
    ("TE hidden in a folded line", "X: y\r\n Transfer-Encoding: chunked\r\n\r\n", head(H::Folded)),
    ("TE behind a space", " Transfer-Encoding: chunked\r\n\r\n", head(H::Folded)),
    ("CL folded", "Content-Length:\r\n\t5\r\n\r\nGET /", head(H::Folded)),
    ("CL with a space before the colon", "Content-Length : 5\r\n\r\nGET /", head(H::BlankBeforeColon)),
    ("a space in a name", "X Y: z\r\n\r\n", head(H::BlankBeforeColon)),
    ("a line without a colon", "Content-Length\r\n\r\n", head(H::FieldName)),
    ("a line without a name", ": 5\r\n\r\n", head(H::FieldName)),
    ("NUL in a value", "X: a\0b\r\n\r\n", head(H::FieldValue)),
    ("an escape in a value", "X: a\x1bb\r\n\r\n", head(H::FieldValue)),
    ("a head that ends in a bare LF", "X: y\r\n\n", head(H::BareLf)),
    ("a head that ends in CR CR LF", "X: y\r\n\r\r\n", head(H::LineEnd)),
    // Host.
    ("Host twice, the same", "Host: h\r\n\r\n", Head(R::HostRepeated)),
    ("Host twice, different", "Host: evil\r\n\r\n", Head(R::HostRepeated)),
    // Chunks.
    ("chunk size with 0x", "Transfer-Encoding: chunked\r\n\r\n0x5\r\nabcde\r\n0\r\n\r\n", Body(B::ChunkSize)),
    ("chunk size signed", "Transfer-Encoding: chunked\r\n\r\n+5\r\nabcde\r\n0\r\n\r\n", Body(B::ChunkSize)),
    ("chunk size negative", "Transfer-Encoding: chunked\r\n\r\n-1\r\n", Body(B::ChunkSize)),
    ("chunk size behind a space", "Transfer-Encoding: chunked\r\n\r\n 5\r\nabcde\r\n0\r\n\r\n", Body(B::ChunkSize)),
    ("chunk size before a space", "Transfer-Encoding: chunked\r\n\r\n5 \r\nabcde\r\n0\r\n\r\n", Body(B::ChunkSize)),
    ("chunk size of two numbers", "Transfer-Encoding: chunked\r\n\r\n5 5\r\nabcde\r\n0\r\n\r\n", Body(B::ChunkSize)),
    ("chunk size with an underscore", "Transfer-Encoding: chunked\r\n\r\n0_5\r\nabcde\r\n0\r\n\r\n", Body(B::ChunkSize)),
    ("chunk size missing", "Transfer-Encoding: chunked\r\n\r\n\r\nabcde\r\n", Body(B::ChunkSize)),
    ("chunk size with NUL", "Transfer-Encoding: chunked\r\n\r\n5\0\r\nabcde\r\n", Body(B::ChunkSize)),
    ("chunk size that wraps round to 5", "Transfer-Encoding: chunked\r\n\r\n10000000000000005\r\nabcde\r\n", Body(B::ChunkSizeTooLong)),
    ("chunk size of endless zeros", "Transfer-Encoding: chunked\r\n\r\n00000000000000000\r\n\r\n", Body(B::ChunkSizeTooLong)),
    ("chunk size that is too small", "Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n", Body(B::ChunkEnd)),
    ("chunk size that is too large by its line end", "Transfer-Encoding: chunked\r\n\r\n5\r\nabc\r\n0\r\n\r\n", Body(B::ChunkEnd)),
    ("chunk size line that ends in a bare LF", "Transfer-Encoding: chunked\r\n\r\n5\nabcde\r\n0\r\n\r\n", Body(B::BareLf)),
    ("chunk size line that ends in a bare CR", "Transfer-Encoding: chunked\r\n\r\n5\rabcde\r\n0\r\n\r\n", Body(B::LineEnd)),
    ("chunk that ends in a bare LF", "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\n0\r\n\r\n", Body(B::BareLf)),
    ("chunk that ends in two other octets", "Transfer-Encoding: chunked\r\n\r\n5\r\nabcdeXX0\r\n\r\n", Body(B::ChunkEnd)),
    ("chunk that ends in CR and something", "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\rX0\r\n\r\n", Body(B::ChunkEnd)),
    ("chunk extension with a bare LF", "Transfer-Encoding: chunked\r\n\r\n1;a\nG\r\n0\r\n\r\n", Body(B::BareLf)),
    ("chunk extension with a bare CR", "Transfer-Encoding: chunked\r\n\r\n1;a\rG\r\n0\r\n\r\n", Body(B::LineEnd)),
    ("chunk extension with a quoted line end", "Transfer-Encoding: chunked\r\n\r\n1;a=\"\nG\"\r\n0\r\n\r\n", Body(B::BareLf)),
    ("chunk extension with NUL", "Transfer-Encoding: chunked\r\n\r\n1;\0\r\nG\r\n0\r\n\r\n", Body(B::ChunkExtension)),
    ("chunk extension without a semicolon", "Transfer-Encoding: chunked\r\n\r\n1 a\r\nG\r\n0\r\n\r\n", Body(B::ChunkSize)),
    ("chunk extension without a name", "Transfer-Encoding: chunked\r\n\r\n1;\r\nG\r\n0\r\n\r\n", Body(B::ChunkExtension)),
    ("chunk extension with an empty name", "Transfer-Encoding: chunked\r\n\r\n1;=b\r\nG\r\n0\r\n\r\n", Body(B::ChunkExtension)),
    ("chunk extension with a name of two words", "Transfer-Encoding: chunked\r\n\r\n1;a b\r\nG\r\n0\r\n\r\n", Body(B::ChunkExtension)),
    ("chunk extension with an empty value", "Transfer-Encoding: chunked\r\n\r\n1;a=\r\nG\r\n0\r\n\r\n", Body(B::ChunkExtension)),
    ("chunk extension with a value of two words", "Transfer-Encoding: chunked\r\n\r\n1;a=b c\r\nG\r\n0\r\n\r\n", Body(B::ChunkExtension)),
    ("chunk extension with an open quote", "Transfer-Encoding: chunked\r\n\r\n1;a=\"b\r\nG\r\n0\r\n\r\n", Body(B::ChunkExtension)),
    ("chunk extension behind a quoted value", "Transfer-Encoding: chunked\r\n\r\n1;a=\"b\"c\r\nG\r\n0\r\n\r\n", Body(B::ChunkExtension)),
    ("chunk extension with two equals signs", "Transfer-Encoding: chunked\r\n\r\n1;a=b=c\r\nG\r\n0\r\n\r\n", Body(B::ChunkExtension)),
    ("chunk extension with a blank at the end", "Transfer-Encoding: chunked\r\n\r\n1;a \r\nG\r\n0\r\n\r\n", Body(B::ChunkExtension)),
    ("chunk extension with a blank behind its value", "Transfer-Encoding: chunked\r\n\r\n1;a=b \r\nG\r\n0\r\n\r\n", Body(B::ChunkExtension)),
    ("chunk extension with a blank behind its quotes", "Transfer-Encoding: chunked\r\n\r\n1;a=\"b\"\t\r\nG\r\n0\r\n\r\n", Body(B::ChunkExtension)),
    ("chunk extension with an open escape", "Transfer-Encoding: chunked\r\n\r\n1;a=\"b\\\r\nG\r\n0\r\n\r\n", Body(B::ChunkExtension)),
    ("chunk extension with a separator", "Transfer-Encoding: chunked\r\n\r\n1;a(b\r\nG\r\n0\r\n\r\n", Body(B::ChunkExtension)),
    ("chunk extension that is no ASCII", "Transfer-Encoding: chunked\r\n\r\n1;\u{fc}\r\nG\r\n0\r\n\r\n", Body(B::ChunkExtension)),
    ("chunk extensions with blanks and escapes", "Transfer-Encoding: chunked\r\n\r\n1 ; a = b ;c\t;d = \"e\\\"\u{fc}\" ;f\r\nG\r\n0\r\n\r\nGET", Reads("G", "GET")),
    ("chunk extension", "Transfer-Encoding: chunked\r\n\r\n1 ;a=\"b;c\"\r\nG\r\n0;d\r\n\r\nGET", Reads("G", "GET")),
    ("last chunk of several zeros", "Transfer-Encoding: chunked\r\n\r\n000\r\n\r\nGET", Reads("", "GET")),
    ("last chunk whose empty line is a bare LF", "Transfer-Encoding: chunked\r\n\r\n0\r\n\nGET", Body(B::Trailer(H::BareLf))),
    ("last chunk without an empty line", "Transfer-Encoding: chunked\r\n\r\n0\r\nGET / HTTP/1.1\r\n\r\n", Body(B::Trailer(H::BlankBeforeColon))),
    ("trailer with a bare LF", "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\nZ: 1\r\n\r\n", Body(B::Trailer(H::BareLf))),
    ("trailer folded", "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n z\r\n\r\n", Body(B::Trailer(H::Folded))),
    ("trailer that starts with a space", "Transfer-Encoding: chunked\r\n\r\n0\r\n X: y\r\n\r\n", Body(B::Trailer(H::Folded))),
    ("trailer with NUL", "Transfer-Encoding: chunked\r\n\r\n0\r\nX: \0\r\n\r\n", Body(B::Trailer(H::FieldValue))),
    ("trailer that names a length does not change the framing", "Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 3\r\n\r\nGET", Reads("", "GET")),
    ("a chunk cut short", "Transfer-Encoding: chunked\r\n\r\n5\r\nabc", NeedsMore),
];

#[rustfmt::skip]
const WHOLE: &[(&str, &str, Verdict)] = &[
    ("TE in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", framing(F::TransferEncodingInHttp10)),
    ("TE in HTTP/1.0 with keep-alive", "POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n", framing(F::TransferEncodingInHttp10)),
    ("Host missing", "GET / HTTP/1.1\r\n\r\n", Head(R::HostMissing)),
    ("Host missing in HTTP/1.0", "GET / HTTP/1.0\r\n\r\nG", Reads("", "G")),
    ("Host empty", "GET / HTTP/1.1\r\nHost:\r\n\r\n", Head(R::HostInvalid)),
    ("Host with a path", "GET / HTTP/1.1\r\nHost: h/x\r\n\r\n", Head(R::HostInvalid)),
    ("Host with user information", "GET / HTTP/1.1\r\nHost: good@evil\r\n\r\n", Head(R::HostInvalid)),
    ("Host with a space", "GET / HTTP/1.1\r\nHost: good evil\r\n\r\n", Head(R::HostInvalid)),
    ("Host as a list", "GET / HTTP/1.1\r\nHost: good, evil\r\n\r\n", Head(R::HostInvalid)),
    ("Host with a backslash", "GET / HTTP/1.1\r\nHost: good\\evil\r\n\r\n", Head(R::HostInvalid)),
    ("Host with a fragment", "GET / HTTP/1.1\r\nHost: good#evil\r\n\r\n", Head(R::HostInvalid)),
    ("Host with a port of letters", "GET / HTTP/1.1\r\nHost: good:evil\r\n\r\n", Head(R::HostInvalid)),
    ("Host with two ports", "GET / HTTP/1.1\r\nHost: good:80:81\r\n\r\n", Head(R::HostInvalid)),
    ("Host with a port too large", "GET / HTTP/1.1\r\nHost: good:65536\r\n\r\n", Head(R::HostInvalid)),
    ("Host non-ASCII", "GET / HTTP/1.1\r\nHost: g\u{f6}\u{f6}d\r\n\r\n", Head(R::HostInvalid)),
    ("Host with an open bracket", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", Head(R::HostInvalid)),
    ("Host behind a bracket", "GET / HTTP/1.1\r\nHost: [::1]evil\r\n\r\n", Head(R::HostInvalid)),
    ("Host with a space before the colon", "GET / HTTP/1.1\r\nHost : h\r\n\r\n", head(H::BlankBeforeColon)),
    ("Host folded in", "GET / HTTP/1.1\r\n Host: evil\r\nHost: h\r\n\r\n", head(H::Folded)),
    ("absolute-form with user information", "GET http://good@evil/ HTTP/1.1\r\nHost: good\r\n\r\n", Head(R::Target(T::Authority))),
    ("absolute-form without authority", "GET http:///x HTTP/1.1\r\nHost: h\r\n\r\n", Head(R::Target(T::Authority))),
    ("absolute-form without slashes", "GET http:h/x HTTP/1.1\r\nHost: h\r\n\r\n", Head(R::Target(T::Form))),
    ("a target that is no form", "GET x HTTP/1.1\r\nHost: h\r\n\r\n", Head(R::Target(T::Form))),
    ("a target that starts with @", "GET @evil/ HTTP/1.1\r\nHost: h\r\n\r\n", Head(R::Target(T::Form))),
    ("asterisk with GET", "GET * HTTP/1.1\r\nHost: h\r\n\r\n", Head(R::Target(T::Form))),
    ("authority-form with GET", "GET h:443 HTTP/1.1\r\nHost: h\r\n\r\n", Head(R::Target(T::Form))),
    ("origin-form with CONNECT", "CONNECT / HTTP/1.1\r\nHost: h\r\n\r\n", Head(R::Target(T::Authority))),
    ("CONNECT without a port", "CONNECT h HTTP/1.1\r\nHost: h\r\n\r\n", Head(R::Target(T::Form))),
    ("a fragment", "GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n", Head(R::Target(T::Octet))),
    ("a quote in the target", "GET /\" HTTP/1.1\r\nHost: h\r\n\r\n", Head(R::Target(T::Octet))),
    ("a non-ASCII target", "GET /\u{fc} HTTP/1.1\r\nHost: h\r\n\r\n", Head(R::Target(T::Octet))),
    ("NUL in the target", "GET /\0 HTTP/1.1\r\nHost: h\r\n\r\n", Head(R::Target(T::Octet))),
    ("DEL in the target", "GET /\x7f HTTP/1.1\r\nHost: h\r\n\r\n", Head(R::Target(T::Octet))),
    ("a tab in the target", "GET /\tx HTTP/1.1\r\nHost: h\r\n\r\n", Head(R::Target(T::Octet))),
    ("a space in the target", "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n", head(H::VersionMalformed)),
    ("a request line within the target", "GET / HTTP/1.1 HTTP/1.1\r\nHost: h\r\n\r\n", head(H::LineEnd)),
    ("two spaces before the target", "GET  / HTTP/1.1\r\nHost: h\r\n\r\n", Head(R::Target(T::Octet))),
    ("two spaces after the target", "GET /  HTTP/1.1\r\nHost: h\r\n\r\n", head(H::VersionMalformed)),
    ("a tab instead of a space", "GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n", Head(R::Method)),
    ("a space before the method", " GET / HTTP/1.1\r\nHost: h\r\n\r\n", Head(R::Method)),
    ("a method with a colon", "GET: / HTTP/1.1\r\nHost: h\r\n\r\n", Head(R::Method)),
    ("a method with NUL", "G\0T / HTTP/1.1\r\nHost: h\r\n\r\n", Head(R::Method)),
    ("a request line cut by a bare CR", "GET / HTTP/1.1\rHost: h\r\n\r\n", head(H::LineEnd)),
    ("a request line that ends in a bare LF", "GET / HTTP/1.1\nHost: h\r\n\r\n", head(H::BareLf)),
    ("an empty line of a bare LF first", "\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", head(H::BareLf)),
    ("an empty line of CR CR LF first", "\r\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", head(H::LineEnd)),
    ("an empty line first", "\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\nG", Reads("", "G")),
    ("a method of one letter", "G /\0 HTTP/1.1\r\nHost: h\r\n\r\n", Head(R::Target(T::Octet))),
    ("HTTP/0.9", "GET /\r\n", Head(R::Target(T::Octet))),
    ("HTTP/1.2", "GET / HTTP/1.2\r\nHost: h\r\n\r\n", head(H::Version)),
    ("HTTP/1.10", "GET / HTTP/1.10\r\nHost: h\r\n\r\n", head(H::LineEnd)),
    ("HTTP/01.1", "GET / HTTP/01.1\r\nHost: h\r\n\r\n", head(H::VersionMalformed)),
    ("HTTP/1.1 behind a version", "GET / HTTP/2.0 HTTP/1.1\r\nHost: h\r\n\r\n", head(H::VersionMalformed)),
    ("HTTP/3 cut short", "GET / HTTP/3\r\nHost: h\r\n\r\n", head(H::VersionMalformed)),
    ("http/1.1", "GET / http/1.1\r\nHost: h\r\n\r\n", head(H::VersionMalformed)),
    ("the HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", head(H::Version)),
    ("a TLS client hello", "\x16\x03\x01\x02\0\x01\0\x01", Head(R::Method)),
];

#[test]
fn requests_after_a_host_line() {
    for (what, wire, verdict) in BEHIND_THE_HOST {
        check(what, &format!("POST / HTTP/1.1\r\nHost: h\r\n{wire}"), verdict);
    }
}

#[test]
fn whole_requests() {
    for (what, wire, verdict) in WHOLE {
        check(what, wire, verdict);
    }
}

fn check(what: &str, wire: &str, verdict: &Verdict) {
    let mut buf = BytesMut::from(wire);
    let parsed = parse_request(&mut buf, &Limits::DEFAULT, Strictness::Strict);
    let request = match (&parsed, verdict) {
        (Err(error), Head(expected)) => return assert_eq!(error, expected, "{what}"),
        (Ok(Some(request)), Body(_) | Reads(..) | NeedsMore) => request,
        _ => panic!("{what}: {parsed:?}"),
    };
    let mut decoder = BodyDecoder::new(request.framing);
    let mut content = Vec::new();
    let end = loop {
        match decoder.decode(&mut buf) {
            Ok(Decoded::Data(data)) => content.extend_from_slice(&data),
            end => break end,
        }
    };
    match (end, verdict) {
        (Err(error), Body(expected)) => assert_eq!(error, *expected, "{what}"),
        (Ok(Decoded::End(_)), Reads(expected, left)) => {
            assert_eq!((&content[..], &buf[..]), (expected.as_bytes(), left.as_bytes()), "{what}");
        }
        (Ok(Decoded::NeedMore), NeedsMore) => assert!(decoder.eof().is_err(), "{what}"),
        (end, _) => panic!("{what}: {end:?}"),
    }
}

/// Responses to GET, each with the strict result.
#[rustfmt::skip]
const RESPONSES: &[(&str, &str, Result<BodyFraming, ResponseError>)] = &[
    ("CL and TE", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", Err(ResponseError::Framing(F::TransferEncodingWithContentLength))),
    ("CL twice", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", Err(ResponseError::Framing(F::ContentLengthsDiffer))),
    ("CL twice, the same", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", Err(ResponseError::Framing(F::ContentLengthRepeated))),
    ("CL negative", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", Err(ResponseError::Framing(F::ContentLengthInvalid))),
    ("TE in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Err(ResponseError::Framing(F::TransferEncodingInHttp10))),
    ("TE gzip", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", Err(ResponseError::Framing(F::ChunkedNotLast))),
    ("TE gzip, chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", Err(ResponseError::Framing(F::TransferCodingUnsupported))),
    ("a value with a bare CR: response splitting", "HTTP/1.1 200 OK\r\nLocation: /\rSet-Cookie: a=b\r\n\r\n", Err(ResponseError::Head(H::FieldValue))),
    ("a value with a bare LF: response splitting", "HTTP/1.1 200 OK\r\nLocation: /\nSet-Cookie: a=b\r\n\r\n", Err(ResponseError::Head(H::BareLf))),
    ("folded", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", Err(ResponseError::Head(H::Folded))),
    ("a space before the colon", "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n", Err(ResponseError::Head(H::BlankBeforeColon))),
    ("a bare LF that the last body left over", "\nHTTP/1.1 200 OK\r\n\r\n", Err(ResponseError::EmptyLine)),
    ("what the last body left over", "\r\nHTTP/1.1 200 OK\r\n\r\n", Err(ResponseError::EmptyLine)),
    ("a body that was longer than it said", "more</p>HTTP/1.1 200 OK\r\n\r\n", Err(ResponseError::Head(H::Version))),
    ("status of two digits", "HTTP/1.1 20 OK\r\n\r\n", Err(ResponseError::StatusLine)),
    ("status of four digits", "HTTP/1.1 2000 OK\r\n\r\n", Err(ResponseError::StatusLine)),
    ("status below 100", "HTTP/1.1 099 Low\r\n\r\n", Err(ResponseError::StatusLine)),
    ("NUL in the reason", "HTTP/1.1 200 O\0K\r\n\r\n", Err(ResponseError::StatusLine)),
    ("HTTP/2", "HTTP/2 200\r\n\r\n", Err(ResponseError::Head(H::Version))),
    ("no length", "HTTP/1.1 200 OK\r\n\r\n", Ok(BodyFraming::UntilClose)),
    ("no reason", "HTTP/1.1 200\r\nContent-Length: 1\r\n\r\n", Ok(BodyFraming::Length(1))),
    ("204 with a length", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", Ok(BodyFraming::Empty)),
    ("304 with a length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", Ok(BodyFraming::Empty)),
];

#[test]
fn responses() {
    for (what, wire, expected) in RESPONSES {
        let parsed =
            parse_response(&mut BytesMut::from(*wire), &Method::Get, &Limits::DEFAULT, Strictness::Strict);
        assert_eq!(parsed.map(|response| response.unwrap().framing), *expected, "{what}");
    }
}
