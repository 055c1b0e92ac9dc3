//! A message on the next page that says how a form ended.

use http::HeaderValue;

use crate::limits::MAX_FLASH_CHARS;
use crate::text;

/// The cookie that carries it.
pub(crate) const COOKIE: &str = "hapax_flash";

/// A message for the next page. It is escaped like every text, so a forged one does no harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flash(pub(crate) String);

impl Flash {
    /// The message in a cookie, if there is one.
    pub(crate) fn of(cookie: Option<String>) -> Option<Self> {
        let value = cookie?;
        let text = percent_encoding::percent_decode_str(&value).decode_utf8().ok()?;
        (!text.is_empty()).then(|| Flash(text.chars().take(MAX_FLASH_CHARS).collect()))
    }

    /// The cookie that carries the message on.
    pub(crate) fn cookie(text: &str) -> HeaderValue {
        let short: String = text.chars().take(MAX_FLASH_CHARS).collect();
        let value =
            format!("{COOKIE}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age=60", text::encode(&short));
        HeaderValue::try_from(value).expect("encoded text is plain")
    }

    /// The cookie that takes it away.
    pub(crate) fn forget() -> HeaderValue {
        HeaderValue::from_static("hapax_flash=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0")
    }
}
