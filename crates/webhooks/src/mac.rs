//! Message authentication codes and their comparison.

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Sha256, Sha512};
use subtle::{Choice, ConstantTimeEq};

use crate::scheme::Algorithm;

/// The MAC of all `parts`, concatenated.
pub(crate) fn mac(algorithm: Algorithm, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    match algorithm {
        Algorithm::Sha1 => finish(Hmac::<Sha1>::new_from_slice(key), parts),
        Algorithm::Sha256 => finish(Hmac::<Sha256>::new_from_slice(key), parts),
        Algorithm::Sha512 => finish(Hmac::<Sha512>::new_from_slice(key), parts),
    }
}

fn finish<M: Mac, E: std::fmt::Debug>(mac: Result<M, E>, parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = mac.expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

/// Returns true if any of `keys` produces any of `signatures`. All combinations are tried, so that the time reveals
/// nothing.
pub(crate) fn any_matches<'k>(
    algorithm: Algorithm,
    keys: impl Iterator<Item = &'k [u8]>,
    parts: &[&[u8]],
    signatures: &[Vec<u8>],
) -> bool {
    let mut matched = Choice::from(0);
    for key in keys {
        let expected = mac(algorithm, key, parts);
        for signature in signatures {
            matched |= expected.as_slice().ct_eq(signature);
        }
    }
    matched.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;

    /// RFC 2202 and RFC 4231, test case 2.
    #[test]
    fn macs_are_those_of_the_standards() {
        for (algorithm, expected) in [
            (Algorithm::Sha1, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
            (Algorithm::Sha256, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
            (
                Algorithm::Sha512,
                "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
            ),
        ] {
            let found = mac(algorithm, b"Jefe", &[b"what do ya want ", b"for nothing?"]);
            assert_eq!(hex::encode(&found), expected);
            assert_eq!(found.len(), algorithm.mac_bytes());
        }
    }
}
