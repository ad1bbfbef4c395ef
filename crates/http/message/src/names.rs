//! Field names that Petasos uses, spelled as in sent messages. Field names are compared without
//! regard to case, so these constants match other spellings too.

macro_rules! names {
    ($($constant:ident = $name:literal;)*) => {
        $(#[doc = concat!("`", $name, "`")] pub const $constant: &str = $name;)*
    };
}

names! {
    ACCEPT_ENCODING = "Accept-Encoding";
    ACCEPT_RANGES = "Accept-Ranges";
    AGE = "Age";
    AUTHORIZATION = "Authorization";
    CACHE_CONTROL = "Cache-Control";
    CACHE_GROUPS = "Cache-Groups";
    CACHE_GROUP_INVALIDATION = "Cache-Group-Invalidation";
    CACHE_STATUS = "Cache-Status";
    CDN_CACHE_CONTROL = "CDN-Cache-Control";
    CONNECTION = "Connection";
    CONTENT_ENCODING = "Content-Encoding";
    CONTENT_LENGTH = "Content-Length";
    CONTENT_LOCATION = "Content-Location";
    CONTENT_RANGE = "Content-Range";
    CONTENT_TYPE = "Content-Type";
    COOKIE = "Cookie";
    DATE = "Date";
    ETAG = "ETag";
    EXPECT = "Expect";
    EXPIRES = "Expires";
    FORWARDED = "Forwarded";
    HOST = "Host";
    IF_MATCH = "If-Match";
    IF_MODIFIED_SINCE = "If-Modified-Since";
    IF_NONE_MATCH = "If-None-Match";
    IF_RANGE = "If-Range";
    IF_UNMODIFIED_SINCE = "If-Unmodified-Since";
    KEEP_ALIVE = "Keep-Alive";
    LAST_MODIFIED = "Last-Modified";
    LINK = "Link";
    LOCATION = "Location";
    MAX_FORWARDS = "Max-Forwards";
    NO_VARY_SEARCH = "No-Vary-Search";
    PRAGMA = "Pragma";
    PROXY_AUTHENTICATE = "Proxy-Authenticate";
    PROXY_AUTHORIZATION = "Proxy-Authorization";
    PROXY_CONNECTION = "Proxy-Connection";
    RANGE = "Range";
    RETRY_AFTER = "Retry-After";
    SERVER = "Server";
    SET_COOKIE = "Set-Cookie";
    SURROGATE_CAPABILITY = "Surrogate-Capability";
    SURROGATE_CONTROL = "Surrogate-Control";
    SURROGATE_KEY = "Surrogate-Key";
    TE = "TE";
    TRACEPARENT = "Traceparent";
    TRACESTATE = "Tracestate";
    TRAILER = "Trailer";
    TRANSFER_ENCODING = "Transfer-Encoding";
    UPGRADE = "Upgrade";
    USER_AGENT = "User-Agent";
    VARY = "Vary";
    VIA = "Via";
    X_FORWARDED_FOR = "X-Forwarded-For";
    X_FORWARDED_HOST = "X-Forwarded-Host";
    X_FORWARDED_PROTO = "X-Forwarded-Proto";
}

/// Fields that belong to one connection by definition, whether or not `Connection` names them (RFC
/// 9110 section 7.6.1). Fields whose names begin with `Proxy-Auth` concern one proxy and its client
/// (section 11.7). Petasos is a gateway and not such a proxy. It removes them, so that credentials
/// for a proxy do not reach an origin that did not ask for them.
pub const HOP_BY_HOP: &[&str] = &[
    CONNECTION,
    "HTTP2-Settings",
    KEEP_ALIVE,
    PROXY_AUTHENTICATE,
    "Proxy-Authentication-Info",
    PROXY_AUTHORIZATION,
    PROXY_CONNECTION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];
