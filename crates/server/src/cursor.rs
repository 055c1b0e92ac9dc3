//! Sealed cursors of lists. Only this server can make one, and each is valid for one list of one
//! workspace.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hapax_api::Code;
use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Sha256;

use crate::answer::Refused;
use crate::limits::MAX_CURSOR_CHARS;

const TAG_BYTES: usize = 16;
/// Keeps cursor seals apart from other signatures with the server's secret.
const PURPOSE: &[u8] = b"hapax cursor 1";

/// List that a cursor belongs to.
#[derive(Debug, Clone, Copy)]
pub struct CursorScope<'a> {
    /// The workspace of the list.
    pub workspace: &'a str,
    /// The list: its route.
    pub route: &'a str,
    /// The filters and the order, in any order; not the page size, which may change from page to page.
    pub filters: &'a [(&'a str, &'a str)],
}

/// Makes and opens cursors.
pub struct Cursors {
    secret: [u8; 32],
}

impl std::fmt::Debug for Cursors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cursors(…)")
    }
}

impl Cursors {
    /// Creates cursors with the server's secret. All nodes of an installation share it, so every
    /// node accepts the cursors of the others.
    pub fn new(secret: [u8; 32]) -> Self {
        Cursors { secret }
    }

    /// A cursor for the page after `position`.
    pub fn seal<T: Serialize>(
        &self,
        scope: &CursorScope<'_>,
        position: &T,
    ) -> Result<String, serde_json::Error> {
        let position = serde_json::to_vec(position)?;
        let tag = self.mac(scope, &position).finalize().into_bytes();
        let mut sealed = tag[..TAG_BYTES].to_vec();
        sealed.extend_from_slice(&position);
        Ok(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// The position in a cursor of exactly this scope.
    pub fn open<T: DeserializeOwned>(&self, scope: &CursorScope<'_>, cursor: &str) -> Result<T, Refused> {
        self.find_position(scope, cursor).ok_or_else(|| {
            Refused::new(
                Code::InvalidCursor,
                "The cursor belongs to another list or other filters; omit `cursor` to begin at the first page.",
            )
        })
    }

    fn find_position<T: DeserializeOwned>(&self, scope: &CursorScope<'_>, cursor: &str) -> Option<T> {
        if cursor.len() > MAX_CURSOR_CHARS {
            return None;
        }
        let sealed = URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let (tag, position) = sealed.split_at_checked(TAG_BYTES)?;
        self.mac(scope, position).verify_truncated_left(tag).ok()?;
        serde_json::from_slice(position).ok()
    }

    fn mac(&self, scope: &CursorScope<'_>, position: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).expect("HMAC takes keys of any length");
        // Each part with its length, so that no two scopes give the same bytes.
        let mut add = |part: &[u8]| {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        };
        add(PURPOSE);
        add(scope.workspace.as_bytes());
        add(scope.route.as_bytes());
        let mut filters = scope.filters.to_vec();
        filters.sort_unstable();
        add(&(filters.len() as u64).to_be_bytes());
        for (name, value) in filters {
            add(name.as_bytes());
            add(value.as_bytes());
        }
        add(position);
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCOPE: CursorScope<'static> = CursorScope {
        workspace: "w1",
        route: "/api/v1/workflow-runs",
        filters: &[("status", "FAILED"), ("name", "a")],
    };

    fn opens(cursors: &Cursors, scope: &CursorScope<'_>, cursor: &str) -> bool {
        match cursors.open::<u64>(scope, cursor) {
            Ok(position) => position == 42,
            Err(refused) => {
                assert_eq!(refused.problem().code, Code::InvalidCursor);
                false
            }
        }
    }

    /// RELIABILITY, HTTP: pagination with a garbage or foreign cursor, or the cursor of another filter.
    #[test]
    fn a_cursor_is_good_for_its_own_list_only() {
        let cursors = Cursors::new([7; 32]);
        let cursor = cursors.seal(&SCOPE, &42u64).unwrap();
        assert!(opens(&cursors, &SCOPE, &cursor));
        assert!(opens(
            &cursors,
            &CursorScope { filters: &[("name", "a"), ("status", "FAILED")], ..SCOPE },
            &cursor
        ));
        assert!(!opens(&cursors, &CursorScope { workspace: "w2", ..SCOPE }, &cursor));
        assert!(!opens(&cursors, &CursorScope { route: "/api/v1/doubts", ..SCOPE }, &cursor));
        assert!(!opens(&cursors, &CursorScope { filters: &[("status", "FAILED")], ..SCOPE }, &cursor));
        assert!(!opens(
            &cursors,
            &CursorScope { filters: &[("status", "FAILEDname"), ("", "a")], ..SCOPE },
            &cursor
        ));
        assert!(!opens(&Cursors::new([8; 32]), &SCOPE, &cursor), "of another installation");
    }

    #[test]
    fn garbage_is_refused_and_no_byte_can_be_changed() {
        let cursors = Cursors::new([7; 32]);
        let cursor = cursors.seal(&SCOPE, &42u64).unwrap();
        for bad in ["", "a", "????", "é", &"A".repeat(2_000), &format!("{cursor}="), &format!(" {cursor}")] {
            assert!(!opens(&cursors, &SCOPE, bad), "{bad:?}");
        }
        for at in 0..cursor.len() {
            let other = if &cursor[at..=at] == "A" { "B" } else { "A" };
            let changed = format!("{}{other}{}", &cursor[..at], &cursor[at + 1..]);
            assert!(!opens(&cursors, &SCOPE, &changed), "{at}");
        }
    }
}
