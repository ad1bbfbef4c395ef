//! Reads from an established connection on which terms a client and a server agreed in their TLS
//! handshake.
//!
//! Invariant: an unknown value is absent or 0, never guessed. From a certificate, only the size of
//! the key is read.

use tls_terms::{TlsAgreement, TlsVersion, name_and_bits};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{CommonState, NamedGroup, ProtocolVersion};

/// The terms of an established connection; `None` if the handshake is not complete or a term is
/// unknown.
pub fn agreed_terms(connection: &CommonState) -> Option<TlsAgreement> {
    let version = known_version(connection.protocol_version()?)?.name();
    let (suite, cipher_bits) = name_and_bits(connection.negotiated_cipher_suite()?.suite().into())?;
    let certificate = connection.peer_certificates().and_then(<[_]>::first);
    let key_bits = certificate.and_then(public_key_bits).unwrap_or(0);
    let group = connection.negotiated_key_exchange_group().map(|group| group.name());
    Some(TlsAgreement { version, suite, key_bits, cipher_bits, temporary_key: group.map(temporary_key) })
}

pub(crate) fn known_version(version: ProtocolVersion) -> Option<TlsVersion> {
    match version {
        ProtocolVersion::TLSv1_2 => Some(TlsVersion::Tls12),
        ProtocolVersion::TLSv1_3 => Some(TlsVersion::Tls13),
        _ => None,
    }
}

/// The ephemeral key of a group, as OpenSSL describes it.
fn temporary_key(group: NamedGroup) -> String {
    match group {
        NamedGroup::X25519 => "X25519 253 bits".to_owned(),
        NamedGroup::secp256r1 => "ECDH prime256v1 256 bits".to_owned(),
        NamedGroup::secp384r1 => "ECDH secp384r1 384 bits".to_owned(),
        other => format!("{other:?}"),
    }
}

/// The length in bits of the public key in a certificate (RFC 5280 section 4.1.2.7).
fn public_key_bits(certificate: &CertificateDer<'_>) -> Option<u32> {
    let certificate = ParsedCertificate::try_from(certificate).ok()?;
    key_info_bits(&certificate.subject_public_key_info())
}

/// The length in bits of a SubjectPublicKeyInfo: an algorithm with its parameters, and the key as a
/// bit string.
fn key_info_bits(info: &[u8]) -> Option<u32> {
    /// RFC 8017 appendix A.1.
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
    /// RFC 5480 section 2.1.1, and its curves.
    const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
    const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
    const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
    const P521: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x23];
    /// RFC 8410 section 3.
    const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
    let (info, _) = element(info, SEQUENCE)?;
    let (algorithm, key) = element(info, SEQUENCE)?;
    let (kind, parameters) = element(algorithm, OBJECT)?;
    match kind {
        RSA => {
            // The first byte of a bit string is the number of unused bits in the last byte, here 0.
            let (key, _) = element(key, BITS)?;
            let (key, _) = element(key.strip_prefix(&[0])?, SEQUENCE)?;
            let (modulus, _) = element(key, INTEGER)?;
            let modulus = modulus.strip_prefix(&[0]).unwrap_or(modulus);
            Some(u32::try_from(modulus.len()).ok()? * 8 - modulus.first()?.leading_zeros())
        }
        EC => match element(parameters, OBJECT)?.0 {
            P256 => Some(256),
            P384 => Some(384),
            P521 => Some(521),
            _ => None,
        },
        ED25519 => Some(256),
        _ => None,
    }
}

/// Tags of DER (X.690).
const INTEGER: u8 = 0x02;
const BITS: u8 = 0x03;
const OBJECT: u8 = 0x06;
const SEQUENCE: u8 = 0x30;

/// The content of a DER element with this tag, and the bytes after the element.
fn element(octets: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = octets.strip_prefix(&[tag])?.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81 | 0x82 => {
            let (length, rest) = rest.split_at_checked(usize::from(length - 0x80))?;
            (length.iter().fold(0, |sum, &octet| sum << 8 | usize::from(octet)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::{element, key_info_bits, known_version};
    use tls_terms::{TlsSuites, name_and_bits};
    use tokio_rustls::rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES;

    #[test]
    fn every_suite_of_the_provider_has_a_name() {
        let all: TlsSuites = "ALL".parse().unwrap();
        assert_eq!(all.codes().count(), ALL_CIPHER_SUITES.len());
        for provided in ALL_CIPHER_SUITES {
            let registered = provided.suite().as_str().unwrap();
            let (name, bits) = name_and_bits(provided.suite().into()).unwrap();
            let ours: TlsSuites = registered.parse().unwrap();
            assert_eq!(ours.to_string(), name);
            assert!(ours.serves(known_version(provided.version().version).unwrap()), "{name}");
            assert!(registered.contains(&bits.to_string()) || name.contains("CHACHA"), "{name}");
        }
    }

    /// Encodes a DER element.
    fn der(tag: u8, contents: &[&[u8]]) -> Vec<u8> {
        let content = contents.concat();
        let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
        let length = if content.len() < 0x80 { vec![low] } else { vec![0x82, high, low] };
        [&[tag][..], &length, &content].concat()
    }

    #[test]
    fn rsa_key_has_the_length_of_its_modulus() {
        let kind = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
        let algorithm = der(0x30, &[&der(0x06, &[&kind]), &[0x05, 0]]);
        for (octets, first, bits) in [(256, 0x80, 2048), (384, 0xff, 3072), (128, 0x40, 1023)] {
            let mut modulus = vec![0, first];
            modulus.resize(octets + 1, 0x55);
            let key = der(0x30, &[&der(0x02, &[&modulus]), &der(0x02, &[&[1, 0, 1]])]);
            let info = der(0x30, &[&algorithm, &der(0x03, &[&[0], &key])]);
            assert_eq!(key_info_bits(&info), Some(bits));
        }
    }

    #[test]
    fn elliptic_key_has_the_length_of_its_curve() {
        let bits = |curve: &[u8]| {
            let kind = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
            let algorithm = der(0x30, &[&der(0x06, &[&kind]), &der(0x06, &[curve])]);
            key_info_bits(&der(0x30, &[&algorithm, &der(0x03, &[&[0, 4]])]))
        };
        assert_eq!(bits(&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]), Some(256));
        assert_eq!((bits(&[0x2b, 0x81, 0x04, 0x00, 0x22]), bits(&[1, 2, 3])), (Some(384), None));
    }

    #[test]
    fn truncated_key_has_no_length() {
        assert_eq!(element(&[0x30, 2, 1, 2, 3], 0x30), Some((&[1, 2][..], &[3][..])));
        for cut in [&[][..], &[0x30], &[0x30, 3, 1, 2], &[0x30, 0x82, 1], &[0x30, 0x83, 0, 0, 0], &[0x31, 0]]
        {
            assert_eq!(element(cut, 0x30), None);
        }
    }
}
