//! Base-62 numbers: letters and digits only, so that a double click selects them whole.

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// `bytes`, read as one big-endian number, in exactly `chars` digits; higher digits are dropped.
pub(crate) fn encode(bytes: &[u8], chars: usize) -> String {
    let mut number = bytes.to_vec();
    let mut digits = vec![b'0'; chars];
    for digit in digits.iter_mut().rev() {
        let mut rest = 0u32;
        for byte in &mut number {
            let value = rest * 256 + u32::from(*byte);
            *byte = (value / 62) as u8;
            rest = value % 62;
        }
        *digit = DIGITS[rest as usize];
    }
    digits.into_iter().map(char::from).collect()
}

/// Returns true if `text` is what [`encode`] makes of `number` in as many digits.
pub(crate) fn is_number(text: &str, mut number: u32) -> bool {
    text.bytes().rev().all(|digit| {
        let expected = DIGITS[(number % 62) as usize];
        number /= 62;
        digit == expected
    })
}

#[cfg(test)]
mod tests {
    use super::{encode, is_number};

    #[test]
    fn a_number_is_known_again() {
        for number in [0, 61, 62, 123_456_789, u32::MAX] {
            let text = encode(&number.to_be_bytes(), 6);
            assert!(is_number(&text, number));
            assert!(!is_number(&text, number ^ 1));
            assert!(!is_number(&text.replace(&text[5..], "_"), number));
        }
    }

    #[test]
    fn numbers_have_a_fixed_width() {
        assert_eq!(encode(&[0], 3), "000");
        assert_eq!(encode(&[61], 2), "0z");
        assert_eq!(encode(&[62], 2), "10");
        assert_eq!(encode(&u32::MAX.to_be_bytes(), 6), "4gfFC3");
        assert_eq!(encode(&[255; 32], 43).len(), 43);
        assert_ne!(encode(&[255; 32], 43).as_bytes()[0], b'0', "43 digits are just enough for 256 bits");
    }
}
