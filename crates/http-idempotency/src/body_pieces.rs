//! A request body, read piece by piece.

use bytes::{Bytes, BytesMut};

/// Pieces of a body received so far. They use only as much memory as their length: a received piece is often a small
/// part of a large connection buffer, and a buffer that doubles as it grows is half empty.
#[derive(Debug, Default)]
pub struct BodyPieces(Vec<Bytes>);

impl BodyPieces {
    /// Adds the next piece. No piece follows the last one.
    pub fn push(&mut self, piece: Bytes, is_last: bool) {
        match is_last && self.0.is_empty() {
            // Most bodies arrive in one piece, which is used without copying.
            true => self.0.push(piece),
            false => self.0.push(Bytes::copy_from_slice(&piece)),
        }
    }

    /// The whole body.
    pub fn into_bytes(mut self) -> Bytes {
        if self.0.len() <= 1 {
            return self.0.pop().unwrap_or_default();
        }
        let mut whole = BytesMut::with_capacity(self.0.iter().map(Bytes::len).sum());
        for piece in self.0 {
            whole.extend_from_slice(&piece);
        }
        whole.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_put_together_and_a_single_one_is_taken_as_it_is() {
        assert!(BodyPieces::default().into_bytes().is_empty());
        let only = Bytes::from(vec![7; 100]);
        let mut pieces = BodyPieces::default();
        pieces.push(only.clone(), true);
        assert_eq!(pieces.into_bytes().as_ptr(), only.as_ptr());
        let mut pieces = BodyPieces::default();
        for (text, is_last) in [("ab", false), ("", false), ("c", true)] {
            pieces.push(Bytes::from_static(text.as_bytes()), is_last);
        }
        assert_eq!(&pieces.into_bytes()[..], b"abc");
    }
}
